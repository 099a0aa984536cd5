package main

import (
	"time"

	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/examples/models"
	"github.com/cistern-ml/cistern/tensor"
)

// model is a GPT and what a GPU computes of it at a time.
type model struct {
	name                    string
	layers, width, heads    int
	seq, micro, accumulated int  // tokens of a sequence, sequences at a time, and times that gradients are added up; 0 for once
	checkpointed            bool // forward is computed again in backward
	vocab                   int  // 0 for GPT-2's
}

// vocabulary is GPT-2's, padded to a multiple of 128 as is usual.
const vocabulary = 50304

func (m *model) words() int {
	if m.vocab > 0 {
		return m.vocab
	}
	return vocabulary
}

func (m *model) times() int { return max(1, m.accumulated) }

// gpt is the model of examples/models, without values.
func (m *model) gpt() (*models.GPT, error) {
	return models.NewGPT(models.GPTConfig{Vocab: m.words(), Context: m.seq, Layers: m.layers, Width: m.width, Heads: m.heads, Checkpoint: m.checkpointed, Tied: true})
}

// parameters are their number: of the embeddings, and of a layer two norms, attention and the two layers behind it, with biases.
func (m *model) parameters() float64 {
	return m.embedding() + float64(m.layers)*m.layer() + 2*float64(m.width)
}

func (m *model) embedding() float64 { return float64((m.words() + m.seq) * m.width) }
func (m *model) layer() float64     { return float64(12*m.width*m.width + 13*m.width) }

// flops are the operations of forward for a micro batch: two for each parameter of a product and token, and in attention four for each pair of tokens and element of the width.
func (m *model) flops() (layer, head float64) {
	tokens, width := float64(m.micro*m.seq), float64(m.width)
	return tokens * (24*width*width + 4*float64(m.seq)*width), tokens * 2 * width * float64(m.words())
}

// utilization is the part of the GPU's rate that a step of some length has by the usual count: 6 operations for each parameter and token and 12 layers·width·sequence, without what checkpoints compute again.
func (m *model) utilization(g *machine, step time.Duration) float64 {
	tokens := float64(m.micro * m.times() * m.seq)
	return tokens * (6*m.parameters() + 12*float64(m.layers*m.width*m.seq)) / step.Seconds() / g.products
}

// precision is how the stages are used here: with everything everywhere float32 parameters under autocast, and else parameters in bfloat16 with master weights. Both are 16 bytes for each parameter
// with AdamW.
func precision(stage int) (dt tensor.DType, sent float64, opts []parallel.Option) {
	if stage == 0 {
		return tensor.Float32, 4, []parallel.Option{parallel.ZeRO(0)}
	}
	return tensor.BFloat16, 2, []parallel.Option{parallel.ZeRO(stage), parallel.MasterWeights()}
}

// held is what a rank holds between steps, to the byte, and what comes to it while it computes.
func (m *model) held(n, stage int) (parallel.Held, error) {
	gpt, err := m.gpt()
	if err != nil {
		return parallel.Held{}, err
	}
	dt, _, opts := precision(stage)
	if m.checkpointed {
		opts = append(opts, parallel.GradientsInParts())
	}
	return parallel.Predict(gpt, dt, 0, n, 2, opts...)
}

// clock runs two things at a time: the GPU's products, and its collectives, which go one after the other on a stream of their own.
type clock struct {
	compute, wire time.Duration // when each has done what it has
	waited        time.Duration // for the wire
	busy          time.Duration // the wire's work
}

// send enqueues a collective that begins when what was computed so far and the one before are done, and returns when it will be done.
func (c *clock) send(t time.Duration) time.Duration {
	c.wire = max(c.wire, c.compute) + t
	c.busy += t
	return c.wire
}

// run computes, when what it needs has come.
func (c *clock) run(t, ready time.Duration) {
	if ready > c.compute {
		c.waited += ready - c.compute
		c.compute = ready
	}
	c.compute += t
}

// step is the time of one step of a rank among n, with a stage of ZeRO.
func (m *model) step(g *machine, n, stage int) clock {
	var c clock
	layer, head := m.flops()
	rate := g.products * g.used
	forward, end := seconds(layer/rate), seconds(head/rate)
	again := 2 // what backward takes, in forwards
	if m.checkpointed {
		again = 3
	}
	_, sent, _ := precision(stage)
	for i := range m.times() {
		last := i == m.times()-1
		if stage < 3 {
			m.pass(g, n, stage, &c, forward, end, again, sent, last)
		} else {
			m.passSharded(g, n, &c, forward, end, again, sent)
		}
	}
	c.run(0, c.wire)
	m.update(g, n, stage, &c, sent)
	return c
}

// pass is forward and backward with all parameters at hand: buckets of gradients are sent in the last pass, when they are full.
func (m *model) pass(g *machine, n, stage int, c *clock, forward, end time.Duration, again int, sent float64, last bool) {
	c.run(time.Duration(m.layers)*forward+end, 0)
	collect := g.reduce
	if stage > 0 {
		collect = g.gather
	}
	const bucket = 25 << 20 // parallel.BucketBytes
	full := 0.0
	add := func(bytes float64, flush bool) {
		if full += bytes; last && (full >= bucket || flush && full > 0) {
			c.send(collect(n, full))
			full = 0
		}
	}
	c.run(2*end, 0)
	for range m.layers {
		c.run(time.Duration(again)*forward, 0)
		add(m.layer()*sent, false)
	}
	add(m.embedding()*sent, true)
}

// passSharded gathers each layer's parameters while the layer before is computed, so that two are whole at a time, in forward and in backward, where gradients are scattered too.
func (m *model) passSharded(g *machine, n int, c *clock, forward, end time.Duration, again int, sent float64) {
	gather := g.gather(n, m.layer()*sent)
	c.run(0, c.send(g.gather(n, m.embedding()*sent)))
	next := c.send(gather)
	for i := range m.layers {
		ready := next
		if i < m.layers-1 {
			next = c.send(gather)
		}
		c.run(forward, ready)
	}
	c.run(3*end, 0)
	next = c.send(gather)
	for i := range m.layers {
		ready := next
		if i < m.layers-1 {
			next = c.send(gather)
		}
		c.run(time.Duration(again)*forward, ready)
		c.send(gather) // the reduce-scatter of as many bytes
	}
	c.send(g.gather(n, m.embedding()*sent))
}

// update is the optimizer's pass over what the rank has, at the memory's rate: parameters, gradients and two states are read and all but the gradients written; and with stages 1 and 2 the parameters of all
// ranks are gathered.
func (m *model) update(g *machine, n, stage int, c *clock, sent float64) {
	const moved = 4*4 + 3*4 // bytes of each parameter in float32
	own := m.parameters()
	if stage > 0 {
		own /= float64(n)
	}
	c.run(seconds(own*moved/g.memory), 0)
	if stage == 1 || stage == 2 {
		c.run(0, c.send(g.gather(n, m.parameters()*sent)))
	}
}
