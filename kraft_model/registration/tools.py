"""The operator of `registration`, who runs the command line tools step by step."""

from __future__ import annotations

from kraftcheck.kraft_model.registration.base import RegistrationBase
from kraftcheck.kraft_model.registration.records import (
    Admin,
    AdminRequest,
    AdminResponse,
    Command,
    Error,
    Name,
    Nil,
    Outcome,
    RemoveVoterRequest,
    Shared,
    Tool,
    UnregisterBrokerRequest,
    UnregisterControllerRequest,
    UpdateFeaturesRequest,
)
from kraftcheck.spec import Map, ModelValue, Step, Steps, become, consume, internal, on, ordered


class RegistrationTools(RegistrationBase):
    @internal(reads=RegistrationBase.running)
    def run_unregister_controller(self, me: Admin, shared: Shared, running: Map[ModelValue | Name, bool]) -> Steps:
        """The operator runs `kafka-cluster unregister-controller` for a stopped node, or carelessly for a running one.

        Source: CLI changes, kafka-cluster, step 1 ("should only be run after a controller is stopped").
        """
        for node in ordered(self.controllers):
            step = self._runs(me, Command(Tool.UNREGISTER_CONTROLLER, node), shared)
            if step is not None:
                yield step.spend("unregistrations", *["careless"] * running[node])

    @internal(reads=RegistrationBase.running)
    def run_unregister_broker(self, me: Admin, shared: Shared, running: Map[ModelValue | Name, bool]) -> Steps:
        """The operator runs `kafka-cluster unregister` for a broker."""
        for node in ordered(self.brokers):
            step = self._runs(me, Command(Tool.UNREGISTER_BROKER, node), shared)
            if step is not None:
                yield step.spend("unregistrations", *["careless"] * running[node])

    @internal(reads=RegistrationBase.running)
    def run_remove_controller(self, me: Admin, shared: Shared, running: Map[ModelValue | Name, bool]) -> Steps:
        """The operator runs `kafka-metadata-quorum remove-controller`, with or without --unregister.

        Source: CLI changes, kafka-metadata-quorum, step 1; User Experience: without the flag the node may keep running.
        """
        for node in ordered(self.controllers):
            for tool in (Tool.REMOVE_CONTROLLER, Tool.REMOVE_AND_UNREGISTER):
                step = self._runs(me, Command(tool, node), shared)
                careless = running[node] and tool is Tool.REMOVE_AND_UNREGISTER
                if step is not None:
                    yield step.spend("removals", *["careless"] * careless)

    @internal
    def run_upgrade(self, me: Admin, shared: Shared) -> Steps:
        """The operator runs `kafka-features upgrade` to the next level. Source: Motivation."""
        level = self.committed_image(shared).level + 1
        if level > self.newest:
            return
        step = self._runs(me, Command(Tool.UPGRADE, level), shared)
        if step is not None:
            yield step.spend("upgrades")

    def _runs(self, me: Admin, command: Command, shared: Shared) -> Step | None:
        """Return the step in which a tool sends its first request to the active controller, or None if it cannot."""
        if me.command is not Nil.NIL or isinstance(shared.active, Nil):
            return None
        step = self._asks(me.but(command=command, outcome=Nil.NIL), self._first_request(command), shared.active)
        if command.tool in (Tool.REMOVE_CONTROLLER, Tool.UPGRADE):
            return step
        return step.put(decommissioned=shared.decommissioned | {command.target})

    def _first_request(self, command: Command) -> type[AdminRequest]:
        return {
            Tool.UNREGISTER_CONTROLLER: UnregisterControllerRequest,
            Tool.UNREGISTER_BROKER: UnregisterBrokerRequest,
            Tool.REMOVE_CONTROLLER: RemoveVoterRequest,
            Tool.REMOVE_AND_UNREGISTER: RemoveVoterRequest,
            Tool.UPGRADE: UpdateFeaturesRequest,
        }[command.tool]

    def _asks(self, me: Admin, kind: type[AdminRequest], active: ModelValue) -> Step:
        assert isinstance(me.command, Command)
        sent = me.but(serial=(me.serial % self.serials if self.serials else me.serial) + 1)
        return become(sent).send(kind(me.command.target, sent.serial, active))  # type: ignore[arg-type]

    @on(AdminResponse)
    def handle_response(self, me: Admin, response: AdminResponse, shared: Shared) -> Steps:
        """A tool ends with its response; `remove-controller --unregister` continues after the first success.

        If the voter could not be removed, the tool returns the error, sends no second request and directs the user to
        `kafka-cluster unregister-controller`. Source: CLI changes, kafka-metadata-quorum, steps 3, 4 and 6.
        """
        if not isinstance(me.command, Command) or not self._is_answer(me, response):
            yield consume(me)
            return
        if self._goes_on(me, response):
            if isinstance(shared.active, Nil):
                yield consume(_admin_after_tool_ended(me, Error.NOT_CONTROLLER))
                return
            removed = me.but(unregistering=True)
            yield self._asks(removed, UnregisterControllerRequest, shared.active).but(consumes=True)
            return
        yield consume(_admin_after_tool_ended(me, response.error))

    def _is_answer(self, me: Admin, response: AdminResponse) -> bool:
        return response.serial == me.serial

    def _goes_on(self, me: Admin, response: AdminResponse) -> bool:
        """Whether a tool sends a second request: `remove-controller --unregister` after a removal without an error."""
        assert isinstance(me.command, Command)
        first = me.command.tool is Tool.REMOVE_AND_UNREGISTER and not me.unregistering
        return first and response.error is Error.NONE

    @internal
    def time_out(self, me: Admin) -> Steps:
        """A tool times out, whether or not its request succeeds later.

        Source: Admin.java ("If the request timed out"); KIP-853, REQUEST_TIMED_OUT.
        """
        if me.command is Nil.NIL:
            return
        yield become(_admin_after_tool_ended(me, Error.REQUEST_TIMED_OUT)).spend("timeouts")

    @internal(reads=RegistrationBase.running)
    def change_configuration(self, me: Admin, shared: Shared, running: Map[ModelValue | Name, bool]) -> Steps:
        """The operator removes a stopped voter from controller.quorum.voters on all nodes of a static quorum.

        Source: User Experience, "Unregister a voter in a static KRaft quorum", step 3.
        """
        if not self.static:
            return
        for node in ordered(node for node in shared.voters if not running[node]):
            yield become(me).put(voters=shared.voters - {node}).spend("configurations")


def _admin_after_tool_ended(me: Admin, error: Error) -> Admin:
    assert isinstance(me.command, Command)
    could_not_remove = me.command.tool is Tool.REMOVE_AND_UNREGISTER and not me.unregistering
    outcome = Outcome(me.command, error, advice=could_not_remove and error is not Error.NONE)
    return Admin(serial=me.serial, outcome=outcome)
