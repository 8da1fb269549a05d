"""What tests share: a real server, a proxy that misbehaves on request, waiting by condition."""
