"""Where a stream goes on: gaps, other servers, other histories, lost sinks, none skipped."""

import shutil
from pathlib import Path

import pytest
from helpers.mysql import PrivateServers, execute
from helpers.pipelines import (
    Recording,
    catch_up,
    config_for,
    executed,
    halt_of,
    start_from_now,
)
from helpers.waiting import wait_until

from capstan import (
    GtidSet,
    HaltReason,
    MemoryStore,
    Pipeline,
    PipelineHalted,
    SqliteMirror,
    SqliteStore,
)
from capstan.demo.mysql_server import MysqlServer
from capstan.testing import TcpProxy


def run(server: MysqlServer, *statements: str) -> None:
    with server.connect() as connection:
        for statement in statements:
            execute(connection, statement)


@pytest.fixture
def shop(new_server: PrivateServers) -> MysqlServer:
    """A private server with one table."""
    return filled(new_server())


def filled(server: MysqlServer) -> MysqlServer:
    run(server, "CREATE DATABASE shop", "CREATE TABLE shop.items (id INT PRIMARY KEY, v INT)")
    return server


def insert(*numbers: int) -> list[str]:
    return [f"INSERT INTO shop.items VALUES ({n}, {n})" for n in numbers]


def streamed_to_the_end(server: MysqlServer, store: MemoryStore) -> Recording:
    sink = Recording()
    with Pipeline(config_for(server, sink, ["shop.*"], store)) as pipeline:
        catch_up(pipeline, server)
    return sink


def test_a_restart_goes_on_where_it_stopped(shop: MysqlServer) -> None:
    """R31, R38: nothing twice, nothing missing, across restarts of the pipeline."""
    store, seen = MemoryStore(), []
    for number in range(1, 5):
        run(shop, *insert(number))
        seen += streamed_to_the_end(shop, store).values

    assert seen == [(n, n) for n in range(1, 5)]


def test_a_restarted_server_and_a_cut_link_lose_nothing(shop: MysqlServer) -> None:
    """Every dial starts from the durable position; the budget is not used up by progress."""
    sink = Recording()
    with TcpProxy(shop.host, shop.port) as proxy:
        config = config_for(shop, sink, ["shop.*"], port=proxy.port)
        with Pipeline(config) as pipeline:
            run(shop, *insert(1, 2))
            catch_up(pipeline, shop)
            proxy.cut()
            run(shop, *insert(3))
            catch_up(pipeline, shop)
            shop.restart()
            run(shop, *insert(4))
            catch_up(pipeline, shop, timeout=60)
            shop.kill()
            shop.start()
            run(shop, *insert(5))
            catch_up(pipeline, shop, timeout=60)

    assert sink.values == [(n, n) for n in range(1, 6)]
    assert len(set(sink.gtids)) == len(sink.gtids)


def test_a_half_open_link_is_found_dead_and_dialled_again(shop: MysqlServer) -> None:
    """Silence beyond the liveness deadline ends a link, although no packet says so."""
    sink = Recording()
    with TcpProxy(shop.host, shop.port) as proxy:
        config = config_for(
            shop, sink, ["shop.*"], port=proxy.port, heartbeat=0.2, liveness_timeout=1.0
        )
        with Pipeline(config) as pipeline:
            proxy.freeze()
            wait_until(
                lambda: pipeline.status().counters["failed_dials"] > 0, what="the link given up"
            )
            proxy.thaw()
            run(shop, *insert(1))
            catch_up(pipeline, shop)

    assert sink.values == [(1, 1)]


def test_purged_logs_are_a_data_gap(shop: MysqlServer) -> None:
    """R46, D14: what the position needs is gone; nothing is skipped."""
    store = MemoryStore()
    streamed_to_the_end(shop, store)
    run(shop, *insert(1), "FLUSH BINARY LOGS", *insert(2), "FLUSH BINARY LOGS")
    purge(shop)

    assert halt_of(config_for(shop, Recording(), ["shop.*"], store)) is HaltReason.DATA_GAP


def test_an_empty_store_on_purged_logs_names_the_command(shop: MysqlServer) -> None:
    """An unused store has lost nothing: the halt says `no position yet` and what to run."""
    run(shop, *insert(1), "FLUSH BINARY LOGS")
    purge(shop)

    with pytest.raises(PipelineHalted) as caught:
        Pipeline(config_for(shop, Recording(), ["shop.*"])).start()

    assert caught.value.halt.reason is HaltReason.DATA_GAP
    assert "no position yet" in caught.value.halt.detail
    assert "checkpoint set" in caught.value.halt.detail


def purge(server: MysqlServer) -> None:
    with server.connect() as connection:
        ((current, *_),) = execute(connection, "SHOW BINARY LOG STATUS")
        execute(connection, f"PURGE BINARY LOGS TO '{current}'")


def test_the_anchor_may_be_purged(shop: MysqlServer) -> None:
    """D13: when only the anchored transaction is gone, the stream goes on without it."""
    store = MemoryStore()
    run(shop, *insert(1))
    streamed_to_the_end(shop, store)
    run(shop, "FLUSH BINARY LOGS", *insert(2))
    purge(shop)

    assert streamed_to_the_end(shop, store).values == [(2, 2)]


def test_another_server_behind_the_address_is_refused(new_server: PrivateServers) -> None:
    """D14: a checkpoint that the server never executed, before the dump is asked for."""
    first, second = filled(new_server()), filled(new_server())
    store = MemoryStore()
    with TcpProxy(first.host, first.port) as proxy:
        config = config_for(first, Recording(), ["shop.*"], store, port=proxy.port)
        with Pipeline(config) as pipeline:
            run(first, *insert(1))
            catch_up(pipeline, first)
            proxy.retarget(second.host, second.port)
            proxy.cut()
            with pytest.raises(PipelineHalted) as caught:
                pipeline.wait(30)

    assert caught.value.halt.reason is HaltReason.SOURCE_IDENTITY_MISMATCH


def test_a_reset_with_as_many_new_transactions_is_seen(shop: MysqlServer) -> None:
    """D13: the same GTIDs stand for other transactions; every set test passes, the anchor tells."""
    store = MemoryStore()
    run(shop, *insert(1, 2, 3))
    streamed_to_the_end(shop, store)
    before = executed(shop)
    run(shop, "RESET BINARY LOGS AND GTIDS", *insert(11, 12, 13, 14, 15))
    assert executed(shop) == before

    sink = Recording()
    assert halt_of(config_for(shop, sink, ["shop.*"], store)) is HaltReason.SOURCE_HISTORY_CHANGED
    assert sink.values == []
    assert store.load_watermark() == before


def test_a_reset_followed_by_more_transactions_is_seen(shop: MysqlServer) -> None:
    """D13: also when the new history is longer than the old one."""
    store = MemoryStore()
    run(shop, *insert(1))
    streamed_to_the_end(shop, store)
    run(shop, "RESET BINARY LOGS AND GTIDS", *insert(*range(11, 31)))

    sink = Recording()
    assert halt_of(config_for(shop, sink, ["shop.*"], store)) is HaltReason.SOURCE_HISTORY_CHANGED
    assert sink.values == []


def test_a_reset_while_streaming_ends_the_stream(shop: MysqlServer) -> None:
    """D24: the dump ends unrecognised; a start after it is refused; nothing is skipped."""
    store, sink = MemoryStore(), Recording()
    pipeline = Pipeline(config_for(shop, sink, ["shop.*"], store))
    pipeline.start()
    run(shop, *insert(1))
    catch_up(pipeline, shop)
    # The server notices when the new file has grown past the place where it was reading.
    run(shop, "RESET BINARY LOGS AND GTIDS", f"INSERT INTO shop.items VALUES {rows(2, 900)}")
    with pytest.raises(PipelineHalted) as caught:
        pipeline.wait(30)

    assert caught.value.halt.reason is HaltReason.UNRECOGNIZED_DUMP_ERROR
    assert halt_of(config_for(shop, sink, ["shop.*"], store, settle_timeout=1)) in (
        HaltReason.SOURCE_IDENTITY_MISMATCH,
        HaltReason.SOURCE_HISTORY_CHANGED,
    )
    assert sink.values == [(1, 1)]


def rows(first: int, last: int) -> str:
    return ", ".join(f"({n}, {n})" for n in range(first, last + 1))


def test_a_reconnect_inside_a_semi_sync_window_is_no_halt(new_server: PrivateServers) -> None:
    """D14: a transaction sent before gtid_executed has it is looked at again, not refused."""
    server = filled(new_server())
    run(
        server,
        "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'",
        "SET GLOBAL rpl_semi_sync_source_wait_no_replica = ON",
        "SET GLOBAL rpl_semi_sync_source_timeout = 8000",
        "SET GLOBAL rpl_semi_sync_source_enabled = ON",
    )
    sink = Recording()
    with TcpProxy(server.host, server.port) as proxy:
        config = config_for(server, sink, ["shop.*"], port=proxy.port)
        with Pipeline(config) as pipeline, server.connect() as writer:
            connects = pipeline.status().counters["connects"]
            send_without_waiting(writer, insert(1)[0])
            wait_until(lambda: sink.values == [(1, 1)], what="the row, before its commit returns")
            assert not pipeline.watermark <= executed(server)
            proxy.cut()
            wait_until(
                lambda: pipeline.status().counters["connects"] > connects, what="the next dial"
            )
            writer.next_result()
            execute(writer, "SET GLOBAL rpl_semi_sync_source_enabled = OFF")
            run(server, *insert(2))
            catch_up(pipeline, server)

    assert sink.values == [(1, 1), (2, 2)]


def send_without_waiting(connection: object, statement: str) -> None:
    connection._execute_command(3, statement)  # type: ignore[attr-defined]


class TestSinkPosition:
    """D12: the sink's own position against the store's."""

    @pytest.fixture
    def mirrored(self, shop: MysqlServer, tmp_path: Path) -> Path:
        """A mirror and a store that hold one row, with a copy of the mirror from before."""
        self.stream(shop, tmp_path)
        shutil.copy(tmp_path / "mirror.db", tmp_path / "old.db")
        run(shop, *insert(1))
        self.stream(shop, tmp_path)
        return tmp_path

    def stream(self, server: MysqlServer, folder: Path) -> None:
        with Pipeline(self.config(server, folder)) as pipeline:
            catch_up(pipeline, server)

    def config(self, server: MysqlServer, folder: Path) -> object:
        mirror, store = SqliteMirror(folder / "mirror.db"), SqliteStore(folder / "state.db")
        return config_for(server, mirror, ["shop.*"], store)

    def test_a_deleted_mirror_is_seen(self, shop: MysqlServer, mirrored: Path) -> None:
        """D12: an empty mirror beside a store that has gone on is lost, not new."""
        (mirrored / "mirror.db").unlink()

        assert halt_of(self.config(shop, mirrored)) is HaltReason.SINK_POSITION_LOST  # type: ignore[arg-type]

    def test_a_restored_mirror_is_seen(self, shop: MysqlServer, mirrored: Path) -> None:
        """D12: a copy from before lacks what was delivered since."""
        shutil.copy(mirrored / "old.db", mirrored / "mirror.db")

        assert halt_of(self.config(shop, mirrored)) is HaltReason.SINK_POSITION_LOST  # type: ignore[arg-type]

    def test_an_exchanged_mirror_is_seen(
        self, shop: MysqlServer, mirrored: Path, new_server: PrivateServers
    ) -> None:
        """D12: a mirror of another source holds none of what this one was given."""
        other = filled(new_server())
        (mirrored / "other").mkdir()
        self.stream(other, mirrored / "other")
        shutil.copy(mirrored / "other" / "mirror.db", mirrored / "mirror.db")

        assert halt_of(self.config(shop, mirrored)) is HaltReason.SINK_POSITION_LOST  # type: ignore[arg-type]

    def test_a_deleted_store_starts_at_the_mirrors_position(
        self, shop: MysqlServer, mirrored: Path
    ) -> None:
        """D12: the mirror knows where it is; nothing comes twice."""
        (mirrored / "state.db").unlink()
        run(shop, *insert(2))
        self.stream(shop, mirrored)

        with SqliteStoreView(mirrored / "state.db") as store:
            assert store.load_watermark() == executed(shop)

    def test_a_mirror_ahead_of_the_store_counts(self, shop: MysqlServer, mirrored: Path) -> None:
        """D12: a crash between the sink's commit and the store's write delivers nothing twice."""
        with SqliteStoreView(mirrored / "state.db") as store:
            ahead = store.load_watermark()
            store.save_watermark(GtidSet(), None, GtidSet())
        self.stream(shop, mirrored)

        with SqliteStoreView(mirrored / "state.db") as store:
            assert store.load_watermark() == ahead


class SqliteStoreView:
    """A store opened for a look or a write between two runs."""

    def __init__(self, path: Path) -> None:
        self.store = SqliteStore(path)

    def __enter__(self) -> SqliteStore:
        return self.store

    def __exit__(self, *_: object) -> None:
        self.store.close()


def test_a_long_filtered_run_and_a_purge_leave_no_gap(shop: MysqlServer) -> None:
    """D12, R37: a sink that was never called does not hold the position back."""
    store = MemoryStore()
    run(shop, "CREATE TABLE shop.secret (id INT PRIMARY KEY AUTO_INCREMENT)")
    sink = Recording()
    with Pipeline(config_for(shop, sink, ["shop.items"], store)) as pipeline:
        run(shop, *["INSERT INTO shop.secret VALUES ()"] * 500)
        catch_up(pipeline, shop)
    run(shop, "FLUSH BINARY LOGS")
    purge(shop)
    run(shop, *insert(1))

    again = Recording()
    with Pipeline(config_for(shop, again, ["shop.items"], store)) as pipeline:
        catch_up(pipeline, shop)
    assert again.values == [(1, 1)]


def test_a_widened_capture_list_is_refused(shop: MysqlServer) -> None:
    """D16: the past of new tables would silently be missing."""
    store = MemoryStore()
    run(shop, "CREATE TABLE shop.more (id INT PRIMARY KEY)")
    with Pipeline(config_for(shop, Recording(), ["shop.items"], store)) as pipeline:
        catch_up(pipeline, shop)

    wider = config_for(shop, Recording(), ["shop.items", "shop.more"], store)
    assert halt_of(wider) is HaltReason.CAPTURE_CONFIG_DRIFTED


def test_a_second_pipeline_with_the_same_server_id_ends_in_one_conflict(shop: MysqlServer) -> None:
    """R45, R52, R53, R54: exactly one of the two halts, at once, and dials no more."""
    events: list[object] = []
    first = Pipeline(
        config_for(shop, Recording(), ["shop.*"], server_id=4242, observers=(events.append,))
    )
    second_sink = Recording()
    second = Pipeline(config_for(shop, second_sink, ["shop.*"], server_id=4242))
    first.start()
    second.start()

    with pytest.raises(PipelineHalted) as caught:
        first.wait(30)
    run(shop, *insert(1))
    catch_up(second, shop)
    second.stop()

    assert caught.value.halt.reason is HaltReason.SERVER_ID_CONFLICT
    names = [event.name for event in events]  # type: ignore[attr-defined]
    assert names.count("connection.established") == 1
    assert names[-1] == "pipeline.ended"
    assert events[-1].reason == "server_id_conflict"  # type: ignore[attr-defined]
    assert second.status().counters["connects"] == 1
    assert second_sink.values == [(1, 1)]
    assert start_from_now(MemoryStore(), shop).load_watermark() == executed(shop)
