"""The Muon optimizer: momentum whose steps are made orthogonal, for the matrices between the embedding and the head."""

import torch


def orthogonal(g, dtype=torch.bfloat16):
    """The nearest matrix with singular values about 1, for a stack of wide matrices, by five steps of Newton and Schulz's iteration."""
    x = g.to(dtype)
    x = x / (x.flatten(1).norm(dim=1).view(-1, 1, 1) + 1e-7)
    for _ in range(5):
        a = x @ x.transpose(1, 2)
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
    return x.float()


class Muon(torch.optim.Optimizer):
    """A param group is the matrices of one shape, whichever side is longer, so that their steps are made in one go."""

    def __init__(self, params, lr, momentum=0.95, decay=0.05, dtype=torch.bfloat16):
        shapes = {}
        for p in params:
            shapes.setdefault(tuple(sorted(p.shape)), []).append(p)
        super().__init__([{"params": ps} for ps in shapes.values()], {"lr": lr, "momentum": momentum, "decay": decay, "dtype": dtype})
        for g in self.param_groups:
            for p in g["params"]:
                self.state[p]["velocity"] = torch.zeros_like(p)

    @torch.no_grad()
    def step(self):
        for g in self.param_groups:
            wide = []
            for p in g["params"]:
                v = self.state[p]["velocity"].lerp_(p.grad, 1 - g["momentum"])
                u = p.grad.lerp(v, g["momentum"])
                wide.append(u.t() if p.shape[0] > p.shape[1] else u)
            for p, u in zip(g["params"], orthogonal(torch.stack(wide), g["dtype"])):
                p.mul_(1 - g["lr"] * g["decay"])
                p.add_(u.t() if p.shape[0] > p.shape[1] else u, alpha=-g["lr"] * max(1.0, p.shape[0] / p.shape[1]) ** 0.5)
