"""Where MySQL 9.7.4 differs from Python's codecs of character sets of several bytes.

House rules: written by scripts/generate_charsets.py, never edited by hand. A run has the characters
of a sequence and of those that follow it by counting up the last byte; U+FFFE, which is none,
stands where the server itself has to print a replacement.
"""

from typing import Final


def _span(first: int, count: int) -> str:
    return "".join(map(chr, range(first, first + count)))


DIFFERENCES: Final[dict[str, tuple[tuple[bytes, str], ...]]] = {
    "big5": (
        (b"\xa1\x5a", "\ufffe"),
        (b"\xa1\xc3", "\ufffe"),
        (b"\xa1\xc5", "\ufffe"),
        (b"\xa1\xfe", "\ufffe"),
        (b"\xa2\x40", "\ufffe"),
        (b"\xa2\xcc", "\ufffe"),
        (b"\xa2\xce", "\ufffe"),
        (b"\xf9\xd6", "\u7881\u92b9\u88cf\u58bb\u6052\u7ca7\u5afa"),
    ),
    "cp932": (
        (b"\x80", "\ufffe"),
        (b"\xa0", "\ufffe"),
        (b"\xfd", "\ufffe\ufffe\ufffe"),
    ),
    "eucjpms": (
        (b"\x8f\xa2\xb7", "\uff5e"),
        (b"\x8f\xa2\xc3", "\uffe4"),
        (
            b"\x8f\xf3\xf3",
            "\u2170\u2171\u2172\u2173\u2174\u2175\u2176\u2177\u2178\u2179\u2160\u2161",
        ),
        (
            b"\x8f\xf4\xa1",
            (
                "\u2162\u2163\u2164\u2165\u2166\u2167\u2168\u2169\uff07\uff02\u3231\u2116\u2121"
                "\u70bb\u4efc\u50f4\u51ec\u5307\u5324\ufa0e\u548a\u5759\ufa0f\ufa10\u589e\u5bec"
                "\u5cf5\u5d53\ufa11\u5fb7\u6085\u6120\u654e\u663b\u6665\ufa12\uf929\u6801\ufa13"
                "\ufa14\u6a6b\u6ae2\u6df8\u6df2\u7028\ufa15\ufa16\u7501\u7682\u769e\ufa17\u7930"
                "\ufa18\ufa19\ufa1a\ufa1b\u7ae7\ufa1c\ufa1d\u7da0\u7dd6\ufa1e\u8362\ufa1f\u85b0"
                "\ufa20\ufa21\u8807\ufa22\u8b7f\u8cf4\u8d76\ufa23\ufa24\ufa25\u90de\ufa26\u9115"
                "\ufa27\ufa28\u9592\uf9dc\ufa29\u973b\u974d\u9751\ufa2a\ufa2b\ufa2c\u999e\u9ad9"
                "\u9b72\ufa2d\u9ed1"
            ),
        ),
        (b"\x8f\xf5\xa1", _span(0xE3AC, 94)),
        (b"\x8f\xf6\xa1", _span(0xE40A, 94)),
        (b"\x8f\xf7\xa1", _span(0xE468, 94)),
        (b"\x8f\xf8\xa1", _span(0xE4C6, 94)),
        (b"\x8f\xf9\xa1", _span(0xE524, 94)),
        (b"\x8f\xfa\xa1", _span(0xE582, 94)),
        (b"\x8f\xfb\xa1", _span(0xE5E0, 94)),
        (b"\x8f\xfc\xa1", _span(0xE63E, 94)),
        (b"\x8f\xfd\xa1", _span(0xE69C, 94)),
        (b"\x8f\xfe\xa1", _span(0xE6FA, 94)),
        (b"\xa1\xc1", "\uff5e\u2225"),
        (b"\xa1\xdd", "\uff0d"),
        (b"\xa1\xf1", "\uffe0\uffe1"),
        (b"\xa2\xcc", "\uffe2"),
        (
            b"\xad\xa1",
            (
                "\u2460\u2461\u2462\u2463\u2464\u2465\u2466\u2467\u2468\u2469\u246a\u246b\u246c"
                "\u246d\u246e\u246f\u2470\u2471\u2472\u2473\u2160\u2161\u2162\u2163\u2164\u2165"
                "\u2166\u2167\u2168\u2169"
            ),
        ),
        (
            b"\xad\xc0",
            (
                "\u3349\u3314\u3322\u334d\u3318\u3327\u3303\u3336\u3351\u3357\u330d\u3326\u3323"
                "\u332b\u334a\u333b\u339c\u339d\u339e\u338e\u338f\u33c4\u33a1"
            ),
        ),
        (
            b"\xad\xdf",
            (
                "\u337b\u301d\u301f\u2116\u33cd\u2121\u32a4\u32a5\u32a6\u32a7\u32a8\u3231\u3232"
                "\u3239\u337e\u337d\u337c\u2252\u2261\u222b\u222e\u2211\u221a\u22a5\u2220\u221f"
                "\u22bf\u2235\u2229\u222a"
            ),
        ),
        (b"\xf5\xa1", _span(0xE000, 94)),
        (b"\xf6\xa1", _span(0xE05E, 94)),
        (b"\xf7\xa1", _span(0xE0BC, 94)),
        (b"\xf8\xa1", _span(0xE11A, 94)),
        (b"\xf9\xa1", _span(0xE178, 94)),
        (b"\xfa\xa1", _span(0xE1D6, 94)),
        (b"\xfb\xa1", _span(0xE234, 94)),
        (b"\xfc\xa1", _span(0xE292, 94)),
        (b"\xfd\xa1", _span(0xE2F0, 94)),
        (b"\xfe\xa1", _span(0xE34E, 94)),
    ),
    "gb18030": (
        (b"\x81\x35\xf4\x37", "\ue7c7"),
        (b"\xa8\xbc", "\u1e3f"),
    ),
    "sjis": ((b"\x81\x5f", "\u005c"),),
    "ujis": (
        (b"\x8f\xf5\xa1", _span(0xE3AC, 94)),
        (b"\x8f\xf6\xa1", _span(0xE40A, 94)),
        (b"\x8f\xf7\xa1", _span(0xE468, 94)),
        (b"\x8f\xf8\xa1", _span(0xE4C6, 94)),
        (b"\x8f\xf9\xa1", _span(0xE524, 94)),
        (b"\x8f\xfa\xa1", _span(0xE582, 94)),
        (b"\x8f\xfb\xa1", _span(0xE5E0, 94)),
        (b"\x8f\xfc\xa1", _span(0xE63E, 94)),
        (b"\x8f\xfd\xa1", _span(0xE69C, 94)),
        (b"\x8f\xfe\xa1", _span(0xE6FA, 94)),
        (b"\xa1\xc0", "\u005c"),
        (b"\xf5\xa1", _span(0xE000, 94)),
        (b"\xf6\xa1", _span(0xE05E, 94)),
        (b"\xf7\xa1", _span(0xE0BC, 94)),
        (b"\xf8\xa1", _span(0xE11A, 94)),
        (b"\xf9\xa1", _span(0xE178, 94)),
        (b"\xfa\xa1", _span(0xE1D6, 94)),
        (b"\xfb\xa1", _span(0xE234, 94)),
        (b"\xfc\xa1", _span(0xE292, 94)),
        (b"\xfd\xa1", _span(0xE2F0, 94)),
        (b"\xfe\xa1", _span(0xE34E, 94)),
    ),
}
"""Runs by character set; a set whose codec is exact has none."""
