"""One session with ZooKeeper behind asyncio: its life, its requests and its watches. Nothing outside of here knows kazoo."""
