"""Contracts of `quorum`: what each message and each step of a replica's own must do, in the words of the KIPs.

They are step properties over the acting replica. A configuration lists those whose messages and steps it has.

=============  =======================================================================================================
module         what is in it
=============  =======================================================================================================
`rules`        what the KIPs say of replicas, logs and answers, told once more: a slip in the model does not change
               its judge
`messages`     elections, Fetch and FetchSnapshot, AddVoter, RemoveVoter, ApiVersions, UpdateVoter, upgrades,
               DescribeQuorum, and their answers
`steps`        any step: what is sent, what is forgotten, who is answered, what a new role begins with; own steps:
               timers, office, commits, restarts, disks, snapshots, retries
=============  =======================================================================================================
"""
