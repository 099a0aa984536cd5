package main

import "math"

// schedule is how images turn into noise, step by step: step t keeps sqrt(1-beta[t]) of an image and adds noise of variance beta[t], so that after it
// sqrt(kept[t]) of the image is left.
type schedule struct{ beta, kept []float64 }

// newSchedule is that of Nichol and Dhariwal (2021), in which the part that is left falls as a squared cosine.
func newSchedule(steps int) schedule {
	const offset, most = 0.008, 0.999
	left := func(t int) float64 {
		c := math.Cos((float64(t)/float64(steps) + offset) / (1 + offset) * math.Pi / 2)
		return c * c
	}
	s, kept := schedule{}, 1.0
	for t := range steps {
		beta := min(1-left(t+1)/left(t), most)
		kept *= 1 - beta
		s.beta, s.kept = append(s.beta, beta), append(s.kept, kept)
	}
	return s
}

// back are the weights by which an image after step t and what it is without noise make the image before that step, and the deviation of the
// noise that is added (Ho and others, 2020, equation 7).
func (s schedule) back(t int) (image, clean, deviation float64) {
	before := 1.0
	if t > 0 {
		before = s.kept[t-1]
	}
	rest := 1 - s.kept[t]
	return math.Sqrt(1-s.beta[t]) * (1 - before) / rest, math.Sqrt(before) * s.beta[t] / rest, math.Sqrt(s.beta[t] * (1 - before) / rest)
}
