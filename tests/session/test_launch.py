import subprocess
import sys

import pytest
import scrapy

from frontier.errors import ConfigurationError
from frontier.session.launch import launched, run_of, start_id


class Site(scrapy.Spider):
    name = "site"


STEP = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "2"}
SRUN = {**STEP, "SLURM_STEP_NUM_TASKS": "4"}
ARRAY = {"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "8", "SLURM_ARRAY_TASK_ID": "1"}


@pytest.mark.parametrize(
    ("environment", "run"),
    [
        ({}, ""),
        ({"FRONTIER_RUN_ID": ""}, ""),
        ({"FRONTIER_RUN_ID": "nightly 7", **SRUN}, "nightly 7"),
        (SRUN, "slurm 7 2"),
        ({**STEP, "SLURM_STEP_NUM_TASKS": "1"}, ""),  # srun --pty bash
        (ARRAY, "slurm array 8"),
        ({"SLURM_JOB_ID": "7"}, ""),  # the shell of an allocation, or a batch script
        ({"AWS_BATCH_JOB_ID": "6c-1"}, "aws batch 6c-1"),
        ({"AWS_BATCH_JOB_ID": "6c-1:12"}, "aws batch 6c-1"),
        ({"AWS_BATCH_JOB_ID": "6c-1#3"}, "aws batch 6c-1"),
    ],
)
def test_what_launchers_say_is_the_same_in_all_processes_of_a_job(environment, run):
    assert launched(environment) == run


@pytest.mark.parametrize("value", ["x" * 201, "two\nlines", "\0"])
def test_what_is_no_id_is_refused_with_the_name_of_the_variable(value):
    with pytest.raises(ConfigurationError, match="FRONTIER_RUN_ID = "):
        launched({"FRONTIER_RUN_ID": value})


def test_scrapyd_says_it_as_an_argument_of_the_spider():
    assert run_of(Site(_job="abc"), "")[0] == "scrapyd abc"
    assert run_of(Site(_job="abc"), "mine")[0] == "mine"
    assert run_of(Site(), "")[0] == ""


def test_what_scrapyd_calls_a_job_is_no_part_of_the_seeds():
    one, other = Site(_job="abc"), Site(_job="def")

    assert start_id(one) == start_id(other) == run_of(one, "")[1]
    assert start_id(Site(seeds="http://a.example/")) != start_id(one)


def test_a_program_that_imports_the_package_keeps_its_search_for_garbage():
    code = (
        "import gc, frontier.addon, frontier.scheduler, frontier.cli;"
        "print(gc.get_freeze_count())"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True)

    assert done.stdout == "0\n", done.stderr


def test_a_process_that_scrapy_has_for_itself_leaves_its_imports_out_of_it():
    code = (
        "import gc\n"
        "from scrapy.crawler import CrawlerProcess\n"
        "class Process(CrawlerProcess):\n"
        "    def crawl(self):\n"
        "        import frontier.addon\n"
        "Process({'LOG_ENABLED': False}).crawl()\n"
        "print(gc.get_freeze_count() > 0)"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True)

    assert done.stdout == "True\n", done.stderr
