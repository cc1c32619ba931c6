"""asyncio agent whose loop is wedged, with nothing registered for a dump."""
import asyncio
import os
import time


def call_tool(seconds):
    time.sleep(seconds)


async def main():
    print("ready", os.getpid(), flush=True)
    call_tool(3600)


asyncio.run(main())
