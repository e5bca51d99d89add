"""``gur``: the travel agent on the command line. A thin shell over
``travel_agent.agent.TravelAgent``.

Exit codes, for every command: 0 done; 1 anything else, such as a job that failed; 2 wrong usage or
input; 3 declined, with what would work; 4 a site is unavailable; 5 not authorised.
(docs/exit-codes.md)

Imports of whatever takes time are inside the commands, so that ``gur --help`` answers at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gridtravel.gridcore.errors import GridError, InputError
from gridtravel.gridcore.trips.itineraries import Itinerary, TripState
from gridtravel.gridio.cli_frame import (
    CommandFrame,
    JsonOption,
    code_of,
    command_line,
    error_object,
    next_step,
    tell_fault,
)
from gridtravel.gridio.terminal.text import print_json, say, say_document, tell
from gridtravel.travel_agent.choices import TransportChoice
from gridtravel.travel_agent.cli.changes import amend, heal
from gridtravel.travel_agent.cli.frame import (
    FileArgument,
    SearchOption,
    TransportOption,
    TripArgument,
    finish,
    follow,
    listener_for,
    read_metajob,
    run_command,
    show,
)
from gridtravel.travel_agent.cli.interrupts import take_over

if TYPE_CHECKING:
    from gridtravel.travel_agent.agent import TravelAgent


class _GurFrame(CommandFrame):
    interrupted = ("interrupted; what was begun is undone or expires", "see: gur status")


app = command_line(
    "gur", "GUR, the travel agent: book several sites for one moment, from a laptop.", _GurFrame
)


@app.command()
def book(
    file: FileArgument,
    as_json: JsonOption = False,
    accept_alternative: Annotated[
        bool, typer.Option(help="When the trip is refused with an offer, take the offer.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Follow the legs until they are over.")
    ] = False,
    search: SearchOption = None,
    transport: TransportOption = TransportChoice.AUTO,
) -> None:
    """Book a trip: all its legs, or none."""
    from gridtravel.travel_agent.itinerary_json import itinerary_json

    async def go(agent: TravelAgent) -> Itinerary:
        metajob = read_metajob(agent, file)
        itinerary = await agent.book(
            metajob,
            base=file.resolve().parent,
            accept_alternative=accept_alternative,
            listener=listener_for(as_json),
        )
        show(agent, itinerary, itinerary_json(itinerary), as_json)
        if watch and itinerary.state is TripState.BOOKED:
            await follow(agent, itinerary.trip_id, as_json)
        return itinerary

    finish(run_command(go, as_json, transport, search))


@app.command()
def quote(
    file: FileArgument,
    as_json: JsonOption = False,
    search: SearchOption = None,
    transport: TransportOption = TransportChoice.AUTO,
) -> None:
    """Say what would be booked now, and for how much; book nothing."""
    from gridtravel.travel_agent.itinerary_json import itinerary_json

    async def go(agent: TravelAgent) -> Itinerary:
        itinerary = await agent.quote(read_metajob(agent, file), listener=listener_for(as_json))
        show(agent, itinerary, itinerary_json(itinerary), as_json)
        return itinerary

    finish(run_command(go, as_json, transport, search))


@app.command()
def status(
    trip: Annotated[str, typer.Argument(help="Id or name; without it, all trips.")] = "",
    as_json: JsonOption = False,
    as_ics: Annotated[
        bool, typer.Option("--ics", help="Print the trip as iCalendar, as this laptop knows it.")
    ] = False,
    transport: TransportOption = TransportChoice.AUTO,
) -> None:
    """Show where a trip stands, by its sites' own books."""
    from gridtravel.travel_agent.output.rendering import report_json, spread_line

    async def go(agent: TravelAgent) -> None:
        if as_ics:
            if not trip:
                raise InputError("which trip?", hint="gur status TRIP --ics")
            say_document(agent.itinerary_ics(trip))
            return
        reports, objects = [], []
        for each in [trip] if trip else agent.trips():
            try:
                reports.append(
                    await agent.status(each, listener=listener_for(as_json), is_brief=not trip)
                )
            except GridError as fault:
                if trip:
                    raise
                objects.append({"trip": each, **error_object(fault)})
                tell_fault(f"note: {each}", fault.message, next_step(fault, "gur status"))
            else:
                objects.append(report_json(reports[-1]))
        if as_json:
            print_json(objects[0] if trip else {"trips": objects})
            return
        if not reports:
            say("no trips yet; book one with `gur book FILE`")
        for report in reports:
            show(agent, report.itinerary, {}, False)
            for leg, job in report.jobs.items():
                say(f"  {leg}: job {job.job_id} {job.state} {job.reason}".rstrip())
            if spread := spread_line(report):
                say(spread)
            for note in report.notes:
                tell(f"  note: {note}")

    run_command(go, as_json, transport)


@app.command("history")
def show_history(
    trip: Annotated[str, typer.Argument(help="Id or name; without it, all trips.")] = "",
    state: Annotated[
        TripState | None, typer.Option(help="Only trips in this state.", case_sensitive=False)
    ] = None,
    since: Annotated[str, typer.Option(help="Only trips asked for since then.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Show what this laptop remembers of its trips; one trip is told step by step."""
    from gridtravel.travel_agent.output.rendering import (
        histories_table,
        history_json,
        history_table,
        print_table,
    )

    async def go(agent: TravelAgent) -> None:
        zone = agent.config.zone
        if trip:
            found = agent.history(trip)
            if as_json:
                print_json(history_json(found))
            else:
                print_table(history_table(found, zone))
            return
        from gridtravel.gridcore.timing.timetext import parse_instant
        from gridtravel.gridio.system.clock import SystemClock

        after = parse_instant(since, now=SystemClock().now(), zone=zone) if since else 0
        unread: list[dict[str, Any]] = []

        def on_fault(trip_id: str, fault: GridError) -> None:
            unread.append({"trip": trip_id, **error_object(fault)})
            tell(f"note: {trip_id}: {fault.message}")

        trips = agent.histories(state=state, since=after, on_fault=on_fault)
        if as_json:
            print_json({"trips": [*map(history_json, trips), *unread]})
        else:
            print_table(histories_table(trips, zone))

    run_command(go, as_json, TransportChoice.AUTO)


app.command()(amend)
app.command()(heal)


@app.command()
def cancel(
    trip: TripArgument,
    as_json: JsonOption = False,
    transport: TransportOption = TransportChoice.AUTO,
) -> None:
    """Undo a trip at every site: stop its jobs, release its reservations."""
    from gridtravel.travel_agent.itinerary_json import itinerary_json

    async def go(agent: TravelAgent) -> None:
        itinerary = await agent.cancel(trip, listener=listener_for(as_json))
        show(agent, itinerary, itinerary_json(itinerary), as_json)

    run_command(go, as_json, transport)


@app.command()
def resume(
    trip: TripArgument,
    as_json: JsonOption = False,
    transport: TransportOption = TransportChoice.AUTO,
) -> None:
    """After a crash: finish or undo what was begun, and say what was found."""
    from gridtravel.travel_agent.output.rendering import resumed_json

    async def go(agent: TravelAgent) -> None:
        resumed = await agent.resume(trip, listener=listener_for(as_json))
        if not as_json:
            say(f"found: {resumed.found}")
            say(f"done: {resumed.done}")
        show(agent, resumed.itinerary, resumed_json(resumed), as_json)

    run_command(go, as_json, transport)


@app.command()
def watch(
    trip: TripArgument,
    as_json: JsonOption = False,
    transport: TransportOption = TransportChoice.AUTO,
) -> None:
    """Follow the output and the states of all legs until they are over."""

    async def go(agent: TravelAgent) -> None:
        await follow(agent, trip, as_json)

    run_command(go, as_json, transport)


@app.command()
def fetch(
    trip: TripArgument,
    to: Annotated[Path, typer.Option(help="Where the trip's folder NAME/LEG/ is put.")] = Path(),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace other files that lie there.")
    ] = False,
    max_size: Annotated[
        str, typer.Option(help="How much is taken at most in all, such as 500MB or 2TB.")
    ] = "10GB",
    as_json: JsonOption = False,
    transport: TransportOption = TransportChoice.AUTO,
) -> None:
    """Bring the results of all legs home, each leg's into NAME/LEG/."""
    from gridtravel.travel_agent.cli.sizes import parse_size

    bytes_max = parse_size(max_size)

    async def go(agent: TravelAgent) -> None:
        fetched = await agent.fetch(
            trip,
            to,
            overwrite=overwrite,
            bytes_max=bytes_max,
            listener=listener_for(as_json),
        )
        if as_json:
            print_json({leg: [str(each) for each in paths] for leg, paths in fetched.items()})
            return
        for paths in fetched.values():
            for path in paths:
                say(str(path))

    run_command(go, as_json, transport)


@app.command()
def sites(
    trade: Annotated[bool, typer.Option("--trade", help="Who lent, who borrowed.")] = False,
    as_json: JsonOption = False,
    transport: TransportOption = TransportChoice.AUTO,
) -> None:
    """Show the machines of your list: reachable, as whom, for how much, with which clock. Where not
    one can be reached, that is a fault.
    """
    from gridtravel.travel_agent.output.rendering import (
        print_table,
        site_json,
        sites_table,
        trade_table,
    )

    async def go(agent: TravelAgent) -> None:
        reports = await agent.sites()
        if as_json:
            print_json({"sites": [site_json(each) for each in reports]})
        else:
            print_table(trade_table(reports) if trade else sites_table(reports))
        faults = {each.machine.machine: each.fault for each in reports if each.fault is not None}
        for machine, fault in faults.items():
            tell_fault(machine, fault.message, next_step(fault, "gur sites"))
        if len(faults) == len(reports):
            raise typer.Exit(code_of(list(faults.values())))

    run_command(go, as_json, transport)


@app.command()
def init(
    pattern: Annotated[str, typer.Argument(help="single, multiple or pipeline.")] = "multiple",
    with_programs: Annotated[
        Path | None,
        typer.Option(help="New folder for a trip of the demonstration grid, programs and all."),
    ] = None,
) -> None:
    """Write a commented example of a metajob file to standard output."""
    from gridtravel.gridcore.trips.metajobs import UsagePattern
    from gridtravel.travel_agent.demo.example_trips import lay_out_example
    from gridtravel.travel_agent.demo.examples import example_metajob

    take_over()
    try:
        wanted = UsagePattern(pattern)
    except ValueError:
        raise InputError(
            f"no usage pattern {pattern!r}", hint="single, multiple or pipeline"
        ) from None
    if with_programs is None:
        say_document(example_metajob(wanted) + "\n")
    else:
        say(f"now: gur book {lay_out_example(wanted, with_programs)} --watch")


@app.command()
def login(
    ca: Annotated[Path, typer.Option("--ca", help="Folder of the grid's certificate authority.")],
    user: Annotated[str, typer.Option(help="Your login; default: the one of this computer.")] = "",
    hours: Annotated[
        int, typer.Option(min=1, max=168, help="How long the certificate is good.")
    ] = 12,
    as_json: JsonOption = False,
) -> None:
    """Get a short-lived certificate from a certificate authority that you may use."""
    from gridtravel.travel_agent.cli.login import log_in

    take_over()
    certificate = log_in(ca, user, hours)
    if as_json:
        print_json(certificate)
    else:
        say(f"you are {certificate['subject']} until {certificate['until']}")


@app.command()
def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the three sites running for a trip of your own.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show it all on this computer: three sites, one booking, a coupled program at two of them."""
    from gridtravel.travel_agent.demo.run import run_demo

    take_over()
    raise typer.Exit(run_demo(keep=keep, json_output=as_json))


def main() -> None:
    """Entry point of the ``gur`` command."""
    app()


if __name__ == "__main__":
    main()
