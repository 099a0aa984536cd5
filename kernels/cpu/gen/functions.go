package main

import "slices"

// function is a program, and what writes it.
type function struct {
	name, does string
	make       func(*program)
}

// wide is a program that computes in float64.
func wide(write func(*program)) func(*program) {
	return func(p *program) {
		p.wide = true
		write(p)
	}
}

// ofFloat64 is a program whose elements are float64.
func ofFloat64(write func(*program)) func(*program) {
	return func(p *program) {
		p.wide, p.double = true, true
		write(p)
	}
}

// functions are all programs, for an instruction set.
func functions(set string) []*program {
	list := slices.Concat(smooth(), elementary(), doubles())
	all := make([]*program, len(list))
	for i, f := range list {
		p := &program{name: f.name, does: f.does, known: map[string]*node{}, masked: set == "AVX512", neon: set == "NEON"}
		p.pairs = f.name == "normals"
		f.make(p)
		p.finish()
		all[i] = p
	}
	return all
}

// smooth are those of mathematics, and what losses and distributions are made of.
func smooth() []function {
	x := func(f func(p *program, x *node) *node) func(*program) {
		return func(p *program) { p.result(f(p, p.input(0))) }
	}
	// gradient is the incoming gradient, times a derivative.
	gradient := func(f func(p *program, x *node) *node) func(*program) {
		return func(p *program) { p.result(p.times(p.input(0), f(p, p.input(1)))) }
	}
	xy := func(f func(p *program, x, y *node) *node) func(*program) {
		return func(p *program) { p.result(f(p, p.input(0), p.input(1))) }
	}
	gradientOf2 := func(f func(p *program, x, y *node) *node) func(*program) {
		return func(p *program) { p.result(p.times(p.input(0), f(p, p.input(1), p.input(2)))) }
	}
	one := func(p *program) *node { return p.value(1) }
	zero := func(p *program) *node { return p.value(0) }

	return []function{
		{"exp", "e to the power of a", x((*program).exp)},
		{"exp2", "2 to the power of a", x((*program).exp2)},
		{"expm1", "exp(a)-1", x((*program).expm1)},
		{"log", "the natural logarithm", x((*program).log)},
		{"log2", "the logarithm to base 2", x(func(p *program, a *node) *node { return p.logBase(a, 1.4426950408889634074, 1) })},
		{"log10", "the logarithm to base 10", x(func(p *program, a *node) *node {
			return p.logBase(a, 0.43429448190325182765, 0.30102999566398119521)
		})},
		{"log1p", "log(1+a)", x((*program).log1p)},
		{"sqrt", "the square root", x((*program).root)},
		{"rsqrt", "1/sqrt(a)", x(func(p *program, a *node) *node { return p.over(one(p), p.root(a)) })},
		{"reciprocal", "1/a", x(func(p *program, a *node) *node { return p.over(one(p), a) })},
		{"sin", "the sine", x(func(p *program, a *node) *node { return p.sine(a, 0) })},
		{"cos", "the cosine", x(func(p *program, a *node) *node { return p.sine(a, 1) })},
		{"tan", "the tangent", x((*program).tangent)},
		{"asin", "the arcsine", x((*program).asin)},
		{"acos", "the arccosine", x((*program).acos)},
		{"atan", "the arctangent", x((*program).atan)},
		{"atan2", "the angle of the point with the coordinates b and a", xy((*program).atan2)},
		{"sinh", "the hyperbolic sine", x((*program).sinh)},
		{"cosh", "the hyperbolic cosine", x((*program).cosh)},
		{"asinh", "the inverse of the hyperbolic sine", wide(x((*program).asinh))},
		{"acosh", "the inverse of the hyperbolic cosine", wide(x((*program).acosh))},
		{"atanh", "the inverse of the hyperbolic tangent", wide(x((*program).atanh))},
		{"tanh", "the hyperbolic tangent", x((*program).tanh)},
		{"tanhGrad", "a*(1-b*b)", gradient(func(p *program, a *node) *node { return p.fnma(a, a, one(p)) })},
		{"sigmoid", "1/(1+exp(-a))", x((*program).sigmoid)},
		{"sigmoidGrad", "a*b*(1-b)", func(p *program) {
			p.result(p.times(p.times(p.input(0), p.input(1)), p.minus(one(p), p.input(1))))
		}},
		{"silu", "a*sigmoid(a)", x((*program).silu)},
		{"siluGrad", "a times the derivative of silu at b", gradient((*program).siluSlope)},
		{"mish", "a*tanh(log(1+exp(a)))", x((*program).mish)},
		{"mishGrad", "a times the derivative of mish at b", gradient((*program).mishSlope)},
		{"softplus", "log(1+exp(a)), as softplusScaled is", x((*program).softplus)},
		{"softplusScaled", "log(1+exp(beta*a))/beta, and a where beta*a is above the threshold", x((*program).softplusScaled)},
		{"softplusGrad", "a times the derivative of softplusScaled at b", xy((*program).softplusGrad)},
		{"logSigmoid", "log(sigmoid(a))", x((*program).logSigmoid)},
		{"logSigmoidGrad", "a*sigmoid(-b)", gradient(func(p *program, a *node) *node { return p.sigmoid(p.negative(a)) })},
		{"logAddExp", "log(exp(a)+exp(b))", xy((*program).logAddExp)},
		{"logAddExpGrad", "a times the derivative of logAddExp(b, c) by b", func(p *program) {
			p.result(p.logAddExpSlope(p.input(0), p.input(1), p.input(2)))
		}},
		{"lgamma", "log(|gamma(a)|)", wide(x((*program).lgamma))},
		{"digamma", "the derivative of lgamma", wide(x((*program).digamma))},
		{"fmod", "what is left of a/b, with the sign of a", xy((*program).fmod)},
		{"remainder", "what is left of a/b, with the sign of b", xy((*program).remainder)},
		{"floorDivide", "a/b rounded down", xy((*program).floorDivide)},
		{"logitGrad", "a/(b*(1-b)) of a b between two bounds, else a number", xy(func(p *program, g, a *node) *node {
			y := p.over(g, p.times(a, p.minus(one(p), a)))
			y = p.pick(p.compare(less, a, p.scalar(0)), p.scalar(2), y)
			return p.pick(p.compare(greater, a, p.scalar(1)), p.scalar(2), y)
		})},
		{"xlogyGrad", "a*log(c), and 0 where b is 0 and c is not above it, or a is 0", func(p *program) {
			g, a, b := p.input(0), p.input(1), p.input(2)
			none := p.and(p.compare(equal, a, zero(p)), p.compare(lessEqual, b, zero(p)))
			p.result(p.pick(none, zero(p), p.xlogy(g, b)))
		}},
		{"xlogyGradU", "a*b/c", wide(func(p *program) { p.result(p.over(p.times(p.input(0), p.input(1)), p.input(2))) })},
		{"atan2Grad", "a*scale*c/(b*b+c*c)", wide(func(p *program) {
			g, a, b := p.input(0), p.input(1), p.input(2)
			p.result(p.over(p.times(p.times(g, p.scalar(0)), b), p.plus(p.times(a, a), p.times(b, b))))
		})},
		{"logit", "log(a/(1-a)) of an a between two bounds, else two numbers", x((*program).logit)},
		{"xlogy", "a*log(b), and 0 where a is 0 unless b is NaN", xy((*program).xlogy)},
		{"elu", "a where it is positive, else alpha*(exp(a)-1), both times scale", x(func(p *program, a *node) *node {
			return p.pick(p.compare(greater, a, zero(p)), p.times(a, p.scalar(1)), p.times(p.scalar(0), p.expm1(a)))
		})},
		{"eluGrad", "a*scale where b is positive, else a*alpha*exp(b)", func(p *program) {
			g, a := p.input(0), p.input(1)
			z := p.least(zero(p), a)
			slope := p.times(p.scalar(0), p.times(p.expDown(z, nil)))
			p.result(p.times(g, p.pick(p.compare(greater, a, zero(p)), p.scalar(1), slope)))
		}},
		{"erf", "the error function", x((*program).erf)},
		{"erfGrad", "a*2/sqrt(pi)*exp(-b*b)", gradient(func(p *program, a *node) *node {
			first, second := p.squareDecay(p.least(p.value(12), p.magnitude(a)), 1)
			return p.times(p.times(first, p.value(1.12837916709551257389615890312155)), second)
		})},
		{"erfc", "1-erf(a)", x((*program).erfc)},
		{"gelu", "a times the normal distribution function at a", x((*program).gelu)},
		{"geluGrad", "a times the derivative of gelu at b", gradient((*program).geluSlope)},
		{"geluTanh", "the tanh approximation of gelu", x((*program).geluTanh)},
		{"geluTanhGrad", "a times the derivative of geluTanh at b", gradient((*program).geluTanhSlope)},
		{"pow", "a to the power of b", wide(xy((*program).power))},
		{"powScalar", "a to the power of a scalar", wide(x(func(p *program, a *node) *node { return p.power(a, p.scalar(0)) }))},
		{"cube", "a*a*a", x(func(p *program, a *node) *node { return p.times(p.times(a, a), a) })},
		{"bce", "the binary cross entropy of a probability a and a target b", xy((*program).bce)},
		{"bceGrad", "a times the derivative of bce", gradientOf2((*program).bceSlope)},
		{"bceLogits", "the binary cross entropy of a logit a and a target b", xy((*program).bceLogits)},
		{"bceLogitsGrad", "a*(sigmoid(b)-c)", gradientOf2(func(p *program, a, y *node) *node { return p.minus(p.sigmoid(a), y) })},
		{"klDiv", "b*(log(b)-a)", xy((*program).klDiv)},
		{"klDivLog", "exp(b)*(b-a)", xy(func(p *program, a, y *node) *node { return p.times(p.exp(y), p.minus(y, a)) })},
		{"klDivGrad", "a*-c", gradientOf2(func(p *program, _, y *node) *node { return p.negative(y) })},
		{"klDivLogGrad", "a*-exp(c)", gradientOf2(func(p *program, _, y *node) *node { return p.negative(p.exp(y)) })},
		{"squaredError", "(a-b)*(a-b)", xy(func(p *program, a, y *node) *node { d := p.minus(a, y); return p.times(d, d) })},
		{"squaredErrorGrad", "a*2*(b-c)", gradientOf2(func(p *program, a, y *node) *node { d := p.minus(a, y); return p.plus(d, d) })},
		{"smoothL1", "the smooth absolute difference of a and b", xy((*program).smoothL1)},
		{"smoothL1Grad", "a times the derivative of smoothL1", gradientOf2((*program).smoothL1Slope)},
		{"softmaxScale", "a*scale", x(func(p *program, a *node) *node { return p.times(a, p.scalar(0)) })},
		{"logSoftmaxShift", "(a-most)-log of the sum", x(func(p *program, a *node) *node { return p.minus(p.minus(a, p.scalar(0)), p.scalar(1)) })},
		{"softmaxGrad", "b*(a-dot)", xy(func(p *program, a, b *node) *node { return p.times(b, p.minus(a, p.scalar(0))) })},
		{"logSoftmaxGrad", "a-exp(b)*sum", xy(func(p *program, a, b *node) *node { return p.fnma(p.exp(b), p.scalar(0), a) })},
		{"uniform", "the uniform number of a random word, times width, and more", func(p *program) {
			u := p.times(p.toNumber(p.right(p.words(0), 8)), p.value(0x1p-24))
			p.result(p.plus(p.scalar(0), p.times(u, p.scalar(1))))
		}},
		{"kept", "a factor where the upper 24 bits of a random word are below a limit, else 0", func(p *program) { p.result(p.kept(p.words(0))) }},
		{"dropped", "a times what kept makes of the word b", func(p *program) {
			a := p.input(0)
			p.result(p.times(a, p.kept(p.words(1))))
		}},
		{"expShifted", "exp(a-shift)", x(func(p *program, a *node) *node { return p.exp(p.minus(a, p.scalar(0))) })},
		{"normals", "two normal numbers of two random words", (*program).normals},
	}
}

func (p *program) kept(word *node) *node {
	return p.pick(p.compare(less, p.toNumber(p.right(word, 8)), p.scalar(0)), p.scalar(1), p.value(0))
}
