"""The numbers that the study of published networks and simulations states."""

import pytest
import workloads_published as study

pytestmark = pytest.mark.skipif(
    not study.DATA.exists(), reason="needs the published tables; set SCALEOPT_DATA to their folder"
)
ROOM = 1.1  # for another order of sums in the fits


def test_a_few_nodes_tell_of_a_networks_many():
    found = study.errors(study.networks())["mean %"]
    most = {"alexnet": 0.7, "resnet-152": 1.8, "inception-v3": 2.9}
    assert all(found[name] < ROOM * limit for name, limit in most.items())


def test_faces_help_where_they_cost():
    found = study.errors(study.flows())["mean %"]
    assert found.median() < ROOM * 10.7
    assert found.mean() < ROOM * 14.9
    assert found["512³ ARCHER"] < ROOM * 13.9


def test_small_batches_are_slow():
    found = study.errors(study.small_batches())
    assert found["mean %"].item() < ROOM * 6.4
