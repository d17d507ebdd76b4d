"""Ranks started by hand on the hosts of private_hosts.py: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and nothing more."""

import time

SECRET = "a secret of these tests"
PORT = 29500  # free on a host that has just been made


def start_ranks(hosts, argv, master, environment=None, port=PORT):
    """One rank on each of `hosts` (one may stand there several times). `environment`: of all, or one for each rank."""
    ranks = []
    for rank, host in enumerate(hosts):
        own = environment[rank] if isinstance(environment, list) else environment or {}
        ranks.append(host.start(argv, {"RANK": str(rank), "WORLD_SIZE": str(len(hosts)), "MASTER_ADDR": master,
                                       "MASTER_PORT": str(port), "TUTTI_JOB_SECRET": SECRET, "TUTTI_LOG": "info",
                                       **own}))
    return ranks


def outputs(ranks):
    """Of all ranks, for the text of a failed check."""
    return "".join(f"\n--- rank {number} on {rank.host.name}\n{rank.output}" for number, rank in enumerate(ranks))


def wait_all(ranks, limit=30):
    """Exit statuses of all."""
    end = time.monotonic() + limit
    return [rank.wait(max(0.1, end - time.monotonic())) for rank in ranks]
