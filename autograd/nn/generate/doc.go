// Package generate chooses the next tokens of a language model from its logits: greedily, or at random among those that a Sampler leaves. Functions are
// Hugging Face's logits processors, with their numbers and in their order; they take logits, [batch, vocabulary] or [vocabulary], in a graph, which should be
// one without gradients. What is taken out has a logit of minus infinity. Wrong numbers are an *nn.ArgumentError of the graph.
//
//	logits := model.Logits(tokens, cache).Select(1, -1)
//	next := generate.Sampler{Temperature: 0.8, TopK: 50, TopP: 0.95}.Next(logits, tokens)
//
// Keys and values of the tokens before are kept by nn.KVCache. Beams searches for the likeliest sequence.
package generate
