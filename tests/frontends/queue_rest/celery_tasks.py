"""What a Celery worker of `test_celery` runs."""

import os
from pathlib import Path

from celery import Celery

app = Celery("tests", broker=os.environ["BROKER"])
app.conf.update(
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
    broker_transport_options={"polling_interval": 0.1, "visibility_timeout": 60},
)


@app.task
def note(number: int) -> None:
    """Leave a line for each time that the task ran."""
    with (Path(os.environ["NOTES"]) / str(number)).open("a") as file:
        file.write("ran\n")
