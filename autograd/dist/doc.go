// Package dist has probability distributions over variables of a graph, with the names and numbers of torch.distributions: what policy
// gradients, variational autoencoders and flows are made of.
//
//	d := dist.NewNormal(mean, std)
//	z := d.RSample()              // gradients flow to mean and std
//	loss := dist.KL(d, prior).Sum(nil, false)
//
// # Shapes
//
// A distribution is as many as its parameters have elements, broadcast: the batch shape. Sample(n, m) is of shape [n, m, batch...], and
// LogProb of a value that broadcasts with the batch has a number for each. NewIndependent makes the last dimensions of the batch those of one
// value: a diagonal Gaussian is NewIndependent(NewNormal(mean, std), 1). Numbers are of the parameters' type.
//
// # Gradients
//
// LogProb, Entropy and KL have gradients for parameters and values. Sample has none; RSample, of distributions that are a function of noise, has.
// Random numbers are those of the graph's Generator, so that a seed makes them the same again.
//
// # Errors
//
// As operations of variables, methods return no errors: the graph keeps the first. Parameters of different shapes that do not broadcast, or
// of other types than float ones, are an *ArgumentError. What values parameters have is looked at only with Validate, which waits for
// the device; PyTorch looks by default.
package dist
