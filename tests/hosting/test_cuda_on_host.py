"""Code written for device="cuda" on this machine: where tensors are, when copies are made, and that all is put back."""

import pytest
import torch

from mxassay.errors import ContractError, UnsupportedError
from mxassay.hosting.cuda_on_host import cuda_on_host
from mxassay.hosting.emulated_card import names_the_card

CARD = torch.device("cuda", 0)


@pytest.fixture
def host():
    with cuda_on_host() as mode:
        yield mode


FACTORIES = {
    "empty": lambda device: torch.empty(2, 3, device=device),
    "zeros": lambda device: torch.zeros(2, 3, device=device),
    "full": lambda device: torch.full((2, 3), 1.0, device=device),
    "arange": lambda device: torch.arange(6, device=device),
    "tensor": lambda device: torch.tensor([1.0, 2.0], device=device),
    "randn": lambda device: torch.randn(2, 3, device=device),
    "randint": lambda device: torch.randint(0, 4, (3,), device=device),
    "rand with generator": lambda device: torch.rand(3, device=device, generator=torch.Generator(device=device)),
    "eye": lambda device: torch.eye(3, device=device),
    "as_tensor": lambda device: torch.as_tensor([1, 2], device=device),
    "to": lambda device: torch.ones(2).to(device),
    "to with dtype": lambda device: torch.ones(2).to(device, torch.bfloat16),
    "to by keyword": lambda device: torch.ones(2).to(device=device, dtype=torch.float16),
    "empty_like": lambda device: torch.empty_like(torch.ones(2), device=device),
    "new_zeros": lambda device: torch.ones(2).new_zeros(3, device=device),
    "module": lambda device: torch.nn.Linear(2, 3).to(device).weight,
    "module made there": lambda device: torch.nn.Linear(2, 3, device=device).weight,
}


@pytest.mark.parametrize("make", FACTORIES.values(), ids=FACTORIES)
@pytest.mark.parametrize("device", ["cuda", "cuda:0", CARD, torch.device("cuda")], ids=str)
def test_what_is_made_on_the_card_says_so(host, make, device):
    tensor = make(device)
    assert (tensor.device, tensor.is_cuda, tensor.is_cpu, tensor.get_device()) == (CARD, True, False, 0)
    assert host.on_card(tensor)


@pytest.mark.parametrize("make", FACTORIES.values(), ids=FACTORIES)
def test_what_is_made_on_the_host_says_so(host, make):
    tensor = make("cpu")
    assert (tensor.device, tensor.is_cuda, tensor.is_cpu, tensor.get_device()) == (torch.device("cpu"), False, True, -1)


def test_without_a_device_tensors_are_on_the_host(host):
    assert not torch.ones(2).is_cuda
    assert not torch.empty_like(torch.ones(2)).is_cuda


@pytest.mark.parametrize(
    "derive",
    [
        lambda x: x + 1,
        lambda x: x[0],
        lambda x: x.T,
        lambda x: x.detach(),
        lambda x: x.view(-1),
        lambda x: x.to(torch.int32),
        lambda x: x.contiguous().view(torch.uint8),
        lambda x: torch.cat([x, x]),
        lambda x: torch.split(x, 1)[1],
        lambda x: x.max(dim=0).indices,
        lambda x: torch.empty_like(x),
        lambda x: x.new_empty(7),
        lambda x: torch.nn.functional.softmax(x, dim=0),
        lambda x: torch.nn.Parameter(x),
        lambda x: x.clone().add_(1),
        lambda x: torch.mm(x, x.T),
    ],
)
def test_what_comes_from_the_card_is_on_the_card(host, derive):
    assert derive(torch.ones(2, 4, device="cuda")).device == CARD
    assert derive(torch.ones(2, 4)).device.type == "cpu"


def test_copies_between_card_and_host_are_copies(host):
    card = torch.zeros(3, device="cuda")
    down, up = card.cpu(), torch.zeros(3)
    back = up.cuda()
    card += 1
    back += 2
    assert (down.tolist(), up.tolist()) == ([0, 0, 0], [0, 0, 0])
    assert (down.device.type, back.device) == ("cpu", CARD)


def test_a_move_to_where_a_tensor_is_gives_the_tensor(host):
    card, here = torch.zeros(3, device="cuda"), torch.zeros(3)
    assert card.cuda() is card
    assert card.to("cuda") is card
    assert card.to(card.device) is card
    assert here.cpu() is here
    assert here.to("cpu") is here


def test_as_tensor_for_the_card_copies_from_the_host(host):
    here = torch.zeros(3)
    card = torch.as_tensor(here, device="cuda")
    card += 1
    assert here.tolist() == [0, 0, 0]
    assert not here.is_cuda


def test_to_another_tensor_goes_where_that_one_is(host):
    card, here = torch.zeros(3, device="cuda"), torch.zeros(3, dtype=torch.float16)
    assert here.to(card).device == CARD
    assert card.to(here).device.type == "cpu"
    assert card.to(here).dtype == torch.float16


def test_writing_from_the_card_leaves_a_host_tensor_on_the_host(host):
    here = torch.zeros(3)
    here.copy_(torch.ones(3, device="cuda"))
    assert here.tolist() == [1, 1, 1]
    assert not here.is_cuda


def test_pinned_memory_is_host_memory(host):
    assert not torch.ones(3, pin_memory=True).is_cuda
    assert not torch.ones(3).pin_memory().is_cuda


def test_gradients_are_where_their_tensors_are(host):
    weight = torch.ones(3, requires_grad=True)
    (weight.cuda() * 2).sum().backward()
    assert (weight.grad.tolist(), weight.grad.device.type) == ([2, 2, 2], "cpu")


def test_default_device(host):
    torch.set_default_device("cuda")
    assert torch.ones(2).device == CARD
    assert torch.get_default_device() == CARD
    torch.set_default_device(None)
    assert torch.ones(2).device.type == "cpu"
    with torch.device("cuda"):
        assert torch.ones(2).device == CARD


def test_a_generator_of_the_card_repeats_itself(host):
    draws = []
    for _ in range(2):
        generator = torch.Generator(device="cuda")
        assert isinstance(generator, torch.Generator)
        generator.manual_seed(7)
        draws.append(torch.randn(4, device="cuda", generator=generator).tolist())
    assert draws[0] == draws[1]


def test_seeds_reach_what_is_drawn_on_the_card(host):
    torch.cuda.manual_seed(3)
    first = torch.randn(4, device="cuda")
    torch.manual_seed(3)
    assert torch.equal(torch.randn(4, device="cuda"), first)


def test_custom_operators_see_the_card(host):
    library = torch.library.Library("mxassay_host_test", "FRAGMENT")
    library.define("doubled(Tensor a) -> Tensor")
    library.impl("doubled", lambda a: torch.zeros(2, device=a.device) + a * 2, "CPU")
    out = torch.ops.mxassay_host_test.doubled(torch.ones(2, device="cuda"))
    assert (out.tolist(), out.device) == ([2, 2], CARD)


def test_saved_on_the_card_and_loaded(host, tmp_path):
    torch.save({"w": torch.ones(2, device="cuda")}, tmp_path / "w.pt")
    assert not torch.load(tmp_path / "w.pt")["w"].is_cuda
    assert torch.load(tmp_path / "w.pt", map_location="cuda")["w"].device == CARD


def test_the_card_answers_for_an_mi355x(host):
    properties = torch.cuda.get_device_properties(0)
    assert torch.cuda.is_available()
    assert (torch.cuda.device_count(), torch.cuda.current_device()) == (1, 0)
    assert properties.gcnArchName.split(":")[0] == "gfx950"
    assert (properties.multi_processor_count, properties.warp_size) == (256, 64)
    assert "MI355X" in torch.cuda.get_device_name()
    assert "emulated" in torch.cuda.get_device_name()
    assert torch.cuda.get_device_capability() == (9, 5)
    assert torch.version.hip is not None
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total
    torch.cuda.synchronize()
    torch.cuda.set_device(0)
    torch.cuda.empty_cache()


def test_events_and_streams(host):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with pytest.raises(RuntimeError, match=r"^Both events must be recorded before calculating elapsed time\.$"):
        start.elapsed_time(end)
    start.record()
    with torch.cuda.stream(torch.cuda.Stream()), torch.cuda.device(0):
        torch.ones(2, device="cuda").record_stream(torch.cuda.current_stream())
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) >= 0
    assert end.query()


@pytest.mark.parametrize("name", ["CUDAGraph", "graph", "make_graphed_callables"])
def test_graphs_are_refused_by_name(host, name):
    message = (
        rf"^torch\.cuda\.{name} must be left out on the emulated card, not called: "
        r"capture and replay of graphs is not emulated; call the kernel directly$"
    )
    with pytest.raises(UnsupportedError, match=message):
        getattr(torch.cuda, name)()


@pytest.mark.parametrize(
    "use", [lambda: torch.ones(2, device="cuda:1"), lambda: torch.ones(2).cuda(1), lambda: torch.cuda.set_device(1)]
)
def test_there_is_one_card(host, use):
    with pytest.raises(ContractError, match=r"^a card must be cuda:0, not cuda:1; one card is emulated$"):
        use()


@pytest.mark.parametrize(
    ("device", "named"),
    [("cuda", True), ("cuda:0", True), ("hip", True), (0, True), ("cpu", False), ("meta", False), (None, False),
     (True, False), (torch.device("cpu"), False), (torch.float16, False)],
)  # fmt: skip
def test_names_of_the_card(device, named):
    assert names_the_card(device) is named


def test_many_tensors_come_and_go(host):
    kept = torch.ones(2, device="cuda")
    for _ in range(5000):
        torch.empty(1, device="cuda")
    assert kept.is_cuda
    assert len(host.residence) == 1
    assert not any(torch.empty(1).is_cuda for _ in range(5000))  # no new tensor takes over a dead one's place


def test_everything_is_put_back():
    watched = {
        (owner, name): getattr(owner, name)
        for owner, names in (
            (torch, ("Generator", "load", "set_default_device", "get_default_device")),
            (torch.cuda, ("is_available", "Event", "CUDAGraph", "device", "synchronize", "get_device_properties")),
            (torch.version, ("hip", "cuda")),
            (torch.library.Library, ("impl",)),
            (torch.accelerator, ("is_available",)),
            (torch.Tensor, ("record_stream",)),
        )
        for name in names
    }
    with cuda_on_host():
        torch.set_default_device("cuda")
    assert {key: getattr(*key) for key in watched} == watched
    assert torch.ones(2).device.type == "cpu"
    assert not torch.cuda.is_available()
