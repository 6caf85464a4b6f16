"""DBOS behind a webhook. Arguments: workload (asynchronous, steps, fibs), number of steps, port, address of the database."""

import sys

import uvicorn
from dbos import DBOS
from fastapi import FastAPI, Request

workload, count, port, database = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
app = FastAPI()
DBOS(
    config={
        "name": "measured",
        "system_database_url": database,
        "run_admin_server": False,
        "log_level": "WARNING",
    }
)


def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


@DBOS.step()
async def add(total: int) -> int:
    return fib(10) if workload == "fibs" else total + 1


@DBOS.workflow()
async def measured(order: dict) -> int:
    total = 0
    for _ in range(count):
        total = await add(total)
    return total


@app.post("/webhook/measured")
async def receive(request: Request) -> dict:
    handle = await DBOS.start_workflow_async(measured, await request.json())
    if workload == "asynchronous":
        return {"executionId": handle.workflow_id}
    return {"total": await handle.get_result()}


if __name__ == "__main__":
    DBOS.launch()
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", access_log=False)
