package main

import (
	"math"
	"math/rand/v2"
)

// The cart and pole of Barto, Sutton and Anderson (1983), with the constants that are usual since: meters, seconds, kilograms.
const (
	gravity    = 9.8
	cartMass   = 1.0
	poleMass   = 0.1
	totalMass  = cartMass + poleMass
	halfLength = 0.5
	force      = 10.0
	interval   = 0.02
	edge       = 2.4          // where the track ends
	steepest   = math.Pi / 15 // from which angle on the pole has fallen
	longest    = 500          // steps of an episode
	observed   = 4            // numbers of a state
	actions    = 2            // to the left, to the right
	around     = 0.05         // where states start
)

// cartPole is a cart that is pushed to one side or the other, so that the pole on it does not fall.
type cartPole struct {
	rng            *rand.Rand
	x, speed       float64
	angle, turning float64
	steps          int
}

func newCartPole(seed, number uint64) *cartPole {
	c := &cartPole{rng: rand.New(rand.NewPCG(seed, number))}
	c.reset()
	return c
}

func (c *cartPole) reset() {
	for _, v := range []*float64{&c.x, &c.speed, &c.angle, &c.turning} {
		*v = around * (2*c.rng.Float64() - 1)
	}
	c.steps = 0
}

// observe appends the state.
func (c *cartPole) observe(to []float32) []float32 {
	return append(to, float32(c.x), float32(c.speed), float32(c.angle), float32(c.turning))
}

// step pushes the cart. over reports whether the episode has ended, and fell whether the pole or the cart did; the next one has begun then.
// length is that of the episode so far.
func (c *cartPole) step(action int64) (over, fell bool, length int) {
	push := force
	if action == 0 {
		push = -force
	}
	sin, cos := math.Sincos(c.angle)
	t := (push + poleMass*halfLength*c.turning*c.turning*sin) / totalMass
	turn := (gravity*sin - cos*t) / (halfLength * (4.0/3 - poleMass*cos*cos/totalMass))
	accelerate := t - poleMass*halfLength*turn*cos/totalMass
	c.x += interval * c.speed
	c.speed += interval * accelerate
	c.angle += interval * c.turning
	c.turning += interval * turn
	c.steps++
	length, fell = c.steps, math.Abs(c.x) > edge || math.Abs(c.angle) > steepest
	if over = fell || c.steps == longest; over {
		c.reset()
	}
	return over, fell, length
}
