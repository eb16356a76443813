"""AIA written out by hand for one batch: dense matrices, no classes, its own batch norm and its own Adam.

It shares nothing with the package but the initial parameters, taken by name. Dropout is off.
"""

import torch


class PlainAIA:
    def __init__(self, method, batch, settings, front_layers, back_layers):
        self.p = {name: value.detach().clone().requires_grad_() for name, value in method.named_parameters()}
        self.running = {name: value.clone() for name, value in method.named_buffers() if "running" in name}
        self.moments = {name: (torch.zeros_like(v), torch.zeros_like(v)) for name, v in self.p.items()}
        self.steps = {"stable": 0, "adversarial": 0}
        self.s, self.front_layers, self.back_layers = settings, front_layers, back_layers
        self.x, self.y, n = batch.x, batch.y, batch.num_nodes
        self.A = torch.zeros(n, n, dtype=torch.double)
        self.A[batch.edge_index[0], batch.edge_index[1]] = 1
        members = torch.nn.functional.one_hot(batch.node_batch, batch.num_graphs).double()
        self.pool = (members / members.sum(0)).T
        self.edges_of = members.T @ self.A @ members  # diagonal: edges of each graph
        self.members = members

    def norm(self, h, name, train):
        mean, var = self.running[f"{name}.running_mean"], self.running[f"{name}.running_var"]
        if train:
            m, v, k = h.mean(0), h.var(0, unbiased=False), len(h)
            mean.mul_(0.9).add_(0.1 * m.detach())
            var.mul_(0.9).add_(0.1 * v.detach() * k / (k - 1))
        else:
            m, v = mean.clone(), var.clone()
        return (h - m) / (v + 1e-5).sqrt() * self.p[f"{name}.weight"] + self.p[f"{name}.bias"]

    def linear(self, h, name):
        return h @ self.p[f"{name}.weight"].T + self.p[f"{name}.bias"]

    def gin(self, h, weights, name, layers, train):
        for i in range(layers):
            total = (1 + self.p[f"{name}.convs.{i}.eps"]) * h + (self.A * weights).T @ h.clamp(min=0)
            wide = self.norm(self.linear(total, f"{name}.convs.{i}.expand"), f"{name}.convs.{i}.norm", train)
            h = self.norm(self.linear(wide.clamp(min=0), f"{name}.convs.{i}.contract"), f"{name}.norms.{i}", train)
            if i < layers - 1:
                h = h.clamp(min=0)
        return h

    def mask(self, name, train):
        z = self.gin(self.x, torch.ones_like(self.A), f"{name}.encoder", 2, train)
        pairs = torch.cat([z[:, None].expand(-1, len(z), -1), z[None].expand(len(z), -1, -1)], dim=2)
        node, edge = self.linear(z, f"{name}.node_head"), self.linear(pairs, f"{name}.edge_head")
        if self.s.mask_head == "mlp":
            node = self.linear(node.clamp(min=0), f"{name}.node_last")
            edge = self.linear(edge.clamp(min=0), f"{name}.edge_last")
        return torch.sigmoid(node), torch.sigmoid(edge).squeeze(2)

    def hidden(self, train):
        if not self.front_layers:
            return self.x
        return self.gin(self.x, torch.ones_like(self.A), "front", self.front_layers, train)

    def embedding(self, states, mask, train):
        node, edge = (1, torch.ones_like(self.A)) if mask is None else mask
        return self.pool @ self.gin(states * node, edge, "classifier.encoder", self.back_layers, train)

    def cross_entropy(self, h):
        logits = self.linear(h, "classifier.head.linear")
        return (logits.logsumexp(1) - logits[torch.arange(len(self.y)), self.y]).mean()

    def ratio(self, mask, node_target, edge_target):
        node, edge = mask
        nodes = (self.pool @ node).squeeze(1)
        count = self.edges_of.diagonal()
        edges = (self.members.T @ (self.A * edge) @ self.members).diagonal() / count
        return ((nodes - node_target).abs() + 1 - node_target + (edges - edge_target).abs() + 1 - edge_target).mean()

    def stable_loss(self):
        adversarial = [m.detach() for m in self.mask("augmenter", train=False)]
        states = self.hidden(train=True)
        stable = self.mask("generator", train=True)
        merged = [(1 - s) * a + s for s, a in zip(stable, adversarial, strict=True)]
        first = self.cross_entropy(self.embedding(states, stable, train=True))
        alone = {name: value.clone() for name, value in self.running.items()}
        second = self.cross_entropy(self.embedding(states, merged, train=True))
        if self.s.statistics == "stable":
            self.running = alone
        return first + second + self.s.stable_weight * self.ratio(stable, self.s.lambda_s, self.s.lambda_s)

    def adversarial_loss(self):
        states = self.hidden(train=False)
        mask = self.mask("augmenter", train=True)
        augmented = self.embedding(states, mask, train=False)
        original = self.embedding(states, None, train=False)
        apart = (augmented - original).square().sum(1).mean()
        if self.s.distance == "mean":
            apart = apart / augmented.shape[1]
        gain = self.cross_entropy(augmented) - self.s.gamma * apart
        return -(gain - self.s.adversarial_weight * self.ratio(mask, self.s.lambda_a_node, self.s.lambda_a_edge))

    def names(self, phase):
        return [name for name in self.p if name.startswith("augmenter") == (phase == "adversarial")]

    def gradients(self, phase):
        loss = self.stable_loss() if phase == "stable" else self.adversarial_loss()
        return loss.item(), torch.autograd.grad(loss, [self.p[name] for name in self.names(phase)])

    def adam(self, phase, gradients, lr, decay):
        self.steps[phase] += 1
        t = self.steps[phase]
        for name, gradient in zip(self.names(phase), gradients, strict=True):
            gradient = gradient + decay * self.p[name].detach()
            m, v = self.moments[name]
            m.mul_(0.9).add_(0.1 * gradient)
            v.mul_(0.999).add_(0.001 * gradient**2)
            self.p[name].data -= lr * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)

    def step(self, decay):
        """One step in the order of the released code or of Algorithm 1; the losses by phase."""
        rates = {"stable": self.s.lr, "adversarial": self.s.lr_augmenter}
        losses = {}
        if self.s.update == "sequential":
            for phase in ("stable", "adversarial"):
                losses[phase], gradients = self.gradients(phase)
                self.adam(phase, gradients, rates[phase], decay)
        else:
            by_phase = {phase: self.gradients(phase) for phase in ("adversarial", "stable")}
            for phase, (loss, gradients) in by_phase.items():
                losses[phase] = loss
                self.adam(phase, gradients, rates[phase], decay)
        return losses
