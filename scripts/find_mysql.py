"""Say which MySQL server the tests and the demonstration will use; fetch one when there is none.

House rules: this is only an early look, so that the download happens before any test's clock runs.
It ends with status 1 and one sentence when there is no server; each test that needs one says the
same.
"""

import sys

from capstan.demo.mysql_access import external_server
from capstan.demo.mysql_install import NoMysqlServer, find_programs


def main() -> int:
    """Look, say what was found, and answer with the exit status."""
    try:
        external = external_server()
        if external is not None:
            print(f"MySQL {external.version}, named by CAPSTAN_MYSQL_DSN")
        find_programs(announce=print)
    except NoMysqlServer as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
