"""Contracts of `quorum`: the effects that the KIPs require of every message and internal step.

A contract is a step invariant over the acting replica. A configuration lists the contracts of its messages and steps.

=============  =======================================================================================================
module         content
=============  =======================================================================================================
`kip_rules`    the rules of the KIPs, restated: a mistake in an action's rule leaves the contract intact
`messages`     elections, Fetch and FetchSnapshot, AddVoter, RemoveVoter, ApiVersions, UpdateVoter, upgrades,
               DescribeQuorum, and their answers
`steps`        all steps: messages sent and dropped, responses to clients, entry into a role; internal steps: timers,
               leadership, commits, restarts, disks, snapshots, retries
=============  =======================================================================================================
"""
