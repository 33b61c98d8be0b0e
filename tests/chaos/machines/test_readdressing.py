"""What a client library is told of addresses leads through the proxy, so that rules on its links hold."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from chaos.addresses import AddressBook, Reached
from chaos.effects.links import Drop, LinkRule
from chaos.frames import Frame, Framing
from chaos.machines.proxy import HOST, Proxy
from tests.chaos.machines.test_conversation import Lines

STRANGE = "nowhere.example:1"


class Where(Lines):
    """Its answers to ``where`` are an address; "broken" is none that can be read."""

    def readdress(self, request: Frame | None, answer: Frame, reached: Reached) -> bytes:
        if answer.data == b"broken\n":
            raise ValueError("broken")
        if request is None or request.kind != "where":
            return answer.data
        return reached(answer.data.decode().strip()).encode() + b"\n"


def where(port: str) -> Sequence[object] | Where:
    return Where()


class Bench:
    """A cluster of two programs, of which the first says where the second one is."""

    def __init__(self) -> None:
        self.proxy = Proxy(1, lambda hello, transport: transport.abort())
        self.proxy.read_requests(Framing(reader=f"{__name__}:where", kinds=("where",)), ruled=False)
        self.answer = b""

    async def begin(self) -> None:
        self.servers = [await asyncio.start_server(self._serve, HOST, 0) for _ in range(2)]
        self.places = [server.sockets[0].getsockname() for server in self.servers]
        for name, place in zip(("first", "second"), self.places, strict=True):
            self.proxy.programs[name] = {"main": place}
            self.proxy.endpoints.book.enter(
                name, {name: "", f"Host-of-{name}:9": "main", f"{place[0]}:{place[1]}": "main"}
            )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(self.answer if line == b"where\n" else line)
        writer.close()

    async def ask(self, answer: str, port: int) -> str:
        self.answer = answer.encode() + b"\n"
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(b"where\n")
        try:
            return (await asyncio.wait_for(reader.readline(), 5)).decode().strip()
        finally:
            writer.close()


def with_bench(test: object) -> None:
    async def main() -> None:
        bench = Bench()
        await bench.begin()
        try:
            await test(bench)  # type: ignore[operator]
        finally:
            bench.proxy.close()
            for server in bench.servers:
                server.close()

    asyncio.run(main())


def test_an_address_in_an_answer_leads_to_the_node_through_the_proxy_as_this_client() -> None:
    async def test(bench: Bench) -> None:
        port = bench.proxy.endpoints.port("library", "first", "")
        told = await bench.ask(f"{HOST}:{bench.places[1][1]}", port)
        assert told == f"{HOST}:{bench.proxy.endpoints.port('library', 'second', 'main')}"
        assert told != await bench.ask("second", bench.proxy.endpoints.port("other", "first", "")), (
            "others have their own"
        )
        assert {told} == {await bench.ask(name, port) for name in ("second", "HOST-OF-SECOND:9", told)}
        assert await bench.ask(told, int(told.rpartition(":")[2])) == told, "what it reaches is the second node"
        assert not bench.proxy.endpoints.unknown
        rule = LinkRule(frozenset({"library"}), frozenset({"second"}), Drop())
        bench.proxy.set_rule("cut", rule)
        try:
            await asyncio.wait_for(bench.ask("second", int(told.rpartition(":")[2])), 0.2)
        except TimeoutError:
            assert bench.proxy.hits["cut"]
        else:
            raise AssertionError("the rule does not hold")

    with_bench(test)


def test_an_address_of_no_node_is_left_alone_and_remembered() -> None:
    async def test(bench: Bench) -> None:
        port = bench.proxy.endpoints.port("library", "first", "")
        assert await bench.ask(STRANGE, port) == STRANGE
        assert await bench.ask("broken", port) == "broken", "an answer that can't be read goes through as it is"
        assert list(bench.proxy.endpoints.unknown) == [STRANGE]
        for number in range(100):
            bench.proxy.endpoints.reached("library", f"{number}{'x' * 1000}")
        assert len(bench.proxy.endpoints.unknown) == 20 and max(map(len, bench.proxy.endpoints.unknown)) == 100

    with_bench(test)


def test_a_node_that_moves_is_known_by_its_new_addresses_alone() -> None:
    book = AddressBook()
    book.enter("a", {"a": "", "h:1": "main"})
    book.enter("b", {"b": "", "h:2": "main"})
    book.enter("a", {"a": "", "i:1": "main", "i:3": "votes"})
    assert book.find("h:1") is None and book.find("I:3") == ("a", "votes")
    assert book.find("b") == ("b", "") and book.find("h:2") == ("b", "main")
