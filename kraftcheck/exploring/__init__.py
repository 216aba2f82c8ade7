"""A protocol walked through step by step, in a browser on this machine (`kraftcheck explore`).

| module | its one job |
|---|---|
| `tree` | the states that were visited, and how; nothing is expanded before it is asked for |
| `offers` | what a state offers: enabled steps with what they do, why others are not enabled, the properties |
| `saving` | a walk as a file: a trace, a scenario, a report |
| `server` | the page and its answers, for this machine alone |
"""
