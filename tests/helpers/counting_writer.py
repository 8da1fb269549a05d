"""A process that adds one to a row, commit by commit, until its standard input ends.

Run as a program: host, port, user, password, table, id of the row. Says "ready" after the first.
"""

import sys
import threading

import pymysql


def say(word: str) -> None:
    """Tell the test."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def main(host: str, port: str, user: str, password: str, table: str, row: str) -> None:
    """Write until told to stop."""
    over = threading.Event()

    def watch() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=watch, daemon=True).start()
    connection = pymysql.connect(
        host=host, port=int(port), user=user, password=password, autocommit=True
    )
    with connection, connection.cursor() as cursor:
        said = False
        while not over.is_set():
            cursor.execute(f"UPDATE {table} SET n = n + 1 WHERE id = {row}")
            if not said:
                say("ready")
                said = True


if __name__ == "__main__":
    main(*sys.argv[1:])
