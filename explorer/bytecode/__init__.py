"""Search of protocols without messages whose handlers are translated to bytecode: for states that hardly repeat."""
