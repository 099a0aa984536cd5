package nn

// BatchFirstOption is what BatchFirst returns: an option of recurrent layers, of attention and of the blocks of transformers.
type BatchFirstOption struct{}

// BatchFirst takes and gives [N, T, ...] instead of PyTorch's default, [T, N, ...]. The states of recurrent layers are not changed
// by it.
func BatchFirst() BatchFirstOption { return BatchFirstOption{} }

func (BatchFirstOption) applyRNN(c *rnnConfig) { c.note("BatchFirst"); c.batchFirst = true }

func (BatchFirstOption) applyAttention(c *attentionConfig) { c.batchFirst = true }
