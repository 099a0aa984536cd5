package nn_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// site is where the messages below come from. Whatever is inlined into this file, no line of the library may stand there.
var (
	site  = regexp.MustCompile(`messages_test\.go:\d+`)
	hosts = regexp.MustCompile(`host:\d+`)
)

// message is the text of err with HERE for this file's line and host:N for devices.
func message(err error) string {
	return hosts.ReplaceAllString(site.ReplaceAllString(fmt.Sprint(err), "HERE"), "host:N")
}

func zeros(t *testing.T, r *rig, dt tensor.DType, shape ...int) *tensor.Tensor {
	t.Helper()
	x, err := tensor.Zeros(r.exec, dt, shape...)
	require.NoError(t, err)
	t.Cleanup(x.Release)
	return x
}

// wrong is a mistake: an input, and the message that it gives.
type wrong struct {
	dtype tensor.DType
	shape []int
	want  string
}

// The layer is in a model, under the name block, so that messages have a path.
type around struct {
	nn.Base
	block nn.Layer
}

func (a *around) Forward(x *autograd.Variable) *autograd.Variable { return a.block.Forward(x) }

func within(m nn.Layer) *around {
	a := &around{block: m}
	nn.RegisterField(&a.Base, "block", &a.block)
	return a
}

const f32, f64, i64, i32 = tensor.Float32, tensor.Float64, tensor.Int64, tensor.Int32

func TestMessages_OfLayers(t *testing.T) {
	for _, c := range []struct {
		layer nn.Layer
		wrong []wrong
	}{
		{nn.Linear(3, 2), []wrong{
			{f32, []int{2, 4}, `autograd: linear_bias(float32[2, 4], float32[2, 3], float32[2]) in block at HERE: tensor: Linear: [2, 4] and [2, 3] and [2]: the input has 4 features, weights of shape [2, 3] take 3`},
			{f32, []int{}, `autograd: linear_bias(float32[], float32[2, 3], float32[2]) in block at HERE: tensor: Linear: [] and [2, 3] and [2]: inputs are [..., K], weights [N, K]`},
			{f64, []int{2, 3}, `autograd: linear_bias(float64[2, 3], float32[2, 3], float32[2]) in block at HERE: tensor: Linear: float64 and float32 and float32: operands must have one type; To converts`},
			{i64, []int{2, 3}, `autograd: linear_bias(int64[2, 3], float32[2, 3], float32[2]) in block at HERE: tensor: Linear: int64 and float32 and float32: operands must have one type; To converts`},
		}},
		{nn.Embedding(3, 2), []wrong{
			{f32, []int{2}, `autograd: embedding(float32[3, 2], float32[2]) in block at HERE: tensor: IndexSelect: float32: indices are int64 or int32`},
		}},
		{nn.EmbeddingBag(3, 2, tensor.BagMean), []wrong{
			{i64, []int{2, 2, 2}, `autograd: embedding_bag(float32[3, 2], int64[2, 2, 2]) in block at HERE: tensor: EmbeddingBag: [3, 2] and [2, 2, 2]: the index has 3 dimensions; want [B, L] without offsets, or [N] with them`},
			{f32, []int{2, 3}, `autograd: embedding_bag(float32[3, 2], float32[6], int64[2]) in block at HERE: tensor: EmbeddingBag: float32 and float32 and int64: rows are floating point, indices and offsets int64 or int32`},
		}},
		{nn.Conv1d(3, 2, 1), []wrong{
			{f32, []int{1, 4, 4}, `autograd: conv1d_bias(float32[1, 4, 4], float32[2, 3, 1], float32[2]) in block at HERE: tensor: Conv1d: [1, 4, 4] and [2, 3, 1]: the image has 4 channels, kernels of shape [2, 3, 1] take 3`},
			{f32, []int{3}, `autograd: conv1d_bias(float32[3], float32[2, 3, 1], float32[2]) in block at HERE: tensor: Conv1d: [3] and [2, 3, 1] and [2]: the image has 1 dimension; want [N, C, L] or [C, L]`},
			{f64, []int{1, 3, 4}, `autograd: conv1d_bias(float64[1, 3, 4], float32[2, 3, 1], float32[2]) in block at HERE: tensor: Conv1d: float64 and float32 and float32: operands must have one type; To converts`},
		}},
		{nn.Conv2d(3, 2, 3), []wrong{
			{f32, []int{1, 1, 4, 4}, `autograd: conv2d_bias(float32[1, 1, 4, 4], float32[2, 3, 3, 3], float32[2]) in block at HERE: tensor: Conv2d: [1, 1, 4, 4] and [2, 3, 3, 3]: the image has 1 channels, kernels of shape [2, 3, 3, 3] take 3`},
			{f32, []int{3, 3}, `autograd: conv2d_bias(float32[3, 3], float32[2, 3, 3, 3], float32[2]) in block at HERE: tensor: Conv2d: [3, 3] and [2, 3, 3, 3] and [2]: the image has 2 dimensions; want [N, C, H, W] or [C, H, W]`},
			{f32, []int{1, 3, 2, 2}, `autograd: conv2d_bias(float32[1, 3, 2, 2], float32[2, 3, 3, 3], float32[2]) in block at HERE: tensor: Conv2d: [1, 3, 2, 2] and [2, 3, 3, 3]: the kernel is larger than the padded image`},
			{f64, []int{1, 3, 4, 4}, `autograd: conv2d_bias(float64[1, 3, 4, 4], float32[2, 3, 3, 3], float32[2]) in block at HERE: tensor: Conv2d: float64 and float32 and float32: operands must have one type; To converts`},
		}},
		{nn.Conv2d(4, 2, 3, nn.Groups(2)), []wrong{
			{f32, []int{1, 2, 4, 4}, `autograd: conv2d_bias(float32[1, 2, 4, 4], float32[2, 2, 3, 3], float32[2]) in block at HERE: tensor: Conv2d: [1, 2, 4, 4] and [2, 2, 3, 3]: the image has 2 channels, kernels of shape [2, 2, 3, 3] in 2 groups take 4`},
		}},
		{nn.ConvTranspose1d(3, 2, 1), []wrong{
			{f32, []int{1, 4, 4}, `autograd: conv_transpose1d_bias(float32[1, 4, 4], float32[3, 2, 1], float32[2]) in block at HERE: tensor: ConvTranspose1d: [1, 4, 4] and [3, 2, 1]: the image has 4 channels, kernels of shape [3, 2, 1] take 3`},
			{f32, []int{3}, `autograd: conv_transpose1d_bias(float32[3], float32[3, 2, 1], float32[2]) in block at HERE: tensor: ConvTranspose1d: [3] and [3, 2, 1] and [2]: the image has 1 dimension; want [N, C, L] or [C, L]`},
			{f64, []int{1, 3, 4}, `autograd: conv_transpose1d_bias(float64[1, 3, 4], float32[3, 2, 1], float32[2]) in block at HERE: tensor: ConvTranspose1d: float64 and float32 and float32: operands must have one type; To converts`},
		}},
		{nn.ConvTranspose2d(3, 2, 1), []wrong{
			{f32, []int{1, 1, 4, 4}, `autograd: conv_transpose2d_bias(float32[1, 1, 4, 4], float32[3, 2, 1, 1], float32[2]) in block at HERE: tensor: ConvTranspose2d: [1, 1, 4, 4] and [3, 2, 1, 1]: the image has 1 channels, kernels of shape [3, 2, 1, 1] take 3`},
			{f32, []int{3}, `autograd: conv_transpose2d_bias(float32[3], float32[3, 2, 1, 1], float32[2]) in block at HERE: tensor: ConvTranspose2d: [3] and [3, 2, 1, 1] and [2]: the image has 1 dimension; want [N, C, H, W] or [C, H, W]`},
			{f64, []int{1, 3, 4, 4}, `autograd: conv_transpose2d_bias(float64[1, 3, 4, 4], float32[3, 2, 1, 1], float32[2]) in block at HERE: tensor: ConvTranspose2d: float64 and float32 and float32: operands must have one type; To converts`},
		}},
		{nn.BatchNorm1d(3), []wrong{
			{f32, []int{2, 4}, `autograd: batch_norm(float32[2, 4]) in block at HERE: tensor: BatchNorm1d: [2, 4]: 4 channels, the layer has 3; want [N, 3] or [N, 3, L]`},
			{f32, []int{3}, `autograd: batch_norm(float32[3]) in block at HERE: tensor: BatchNorm1d: [3]: 1 dimension; want [N, 3] or [N, 3, L]`},
			{f32, []int{1, 3}, `autograd: batch_norm_affine(float32[1, 3], float32[3], float32[3]) in block at HERE: tensor: BatchMoments: [1, 3]: needs more than one value for each channel in training mode (layers: nn.Eval)`},
			{f64, []int{2, 3}, `autograd: batch_norm_affine(float64[2, 3], float32[3], float32[3]) in block at HERE: tensor: BatchMoments: float64 and float32: the running statistics have the input's type, or float32 for half precision; To converts`},
			{i64, []int{2, 3}, `autograd: batch_norm_affine(int64[2, 3], float32[3], float32[3]) in block at HERE: tensor: BatchMoments: int64: needs a floating-point type`},
		}},
		{nn.BatchNorm2d(3), []wrong{
			{f32, []int{2, 4, 2, 2}, `autograd: batch_norm(float32[2, 4, 2, 2]) in block at HERE: tensor: BatchNorm2d: [2, 4, 2, 2]: 4 channels, the layer has 3; want [N, 3, H, W]`},
			{f32, []int{2, 3}, `autograd: batch_norm(float32[2, 3]) in block at HERE: tensor: BatchNorm2d: [2, 3]: 2 dimensions; want [N, 3, H, W]`},
			{f64, []int{2, 3, 2, 2}, `autograd: batch_norm_affine(float64[2, 3, 2, 2], float32[3], float32[3]) in block at HERE: tensor: BatchMoments: float64 and float32: the running statistics have the input's type, or float32 for half precision; To converts`},
		}},
		{nn.LayerNorm([]int{3}), []wrong{
			{f32, []int{2, 4}, `autograd: layer_norm_affine(float32[2, 4], float32[3], float32[3]) in block at HERE: tensor: LayerNorm: [2, 4]: the last dimensions must be [3], over which it normalises`},
			{f32, []int{}, `autograd: layer_norm_affine(float32[], float32[3], float32[3]) in block at HERE: tensor: LayerNorm: []: the last dimensions must be [3], over which it normalises`},
			{f64, []int{2, 3}, `autograd: layer_norm_affine(float64[2, 3], float32[3], float32[3]) in block at HERE: tensor: LayerNorm: float64 and float32: weight and bias have the input's type, or float32 for half precision; To converts`},
		}},
		{nn.RMSNorm([]int{3}), []wrong{
			{f32, []int{2, 4}, `autograd: rms_norm_weight(float32[2, 4], float32[3]) in block at HERE: tensor: RMSNorm: [2, 4]: the last dimensions must be [3], over which it normalises`},
			{f32, []int{}, `autograd: rms_norm_weight(float32[], float32[3]) in block at HERE: tensor: RMSNorm: []: the last dimensions must be [3], over which it normalises`},
			{f64, []int{2, 3}, `autograd: rms_norm_weight(float64[2, 3], float32[3]) in block at HERE: tensor: RMSNorm: float64 and float32: weight and bias have the input's type, or float32 for half precision; To converts`},
		}},
		{nn.GroupNorm(2, 4), []wrong{
			{f32, []int{2, 3}, `autograd: group_norm(float32[2, 3]) in block at HERE: tensor: GroupNorm: [2, 3]: 3 channels, the layer has 4; want [N, 4, ...]`},
			{f32, []int{4}, `autograd: group_norm_affine(float32[4], float32[4], float32[4]) in block at HERE: tensor: GroupNorm: [4]: needs [N, C, ...]`},
			{f64, []int{2, 4}, `autograd: group_norm_affine(float64[2, 4], float32[4], float32[4]) in block at HERE: tensor: GroupNorm: float64 and float32: weight and bias have the input's type, or float32 for half precision; To converts`},
		}},
		{nn.InstanceNorm2d(3, nn.Affine(true)), []wrong{
			{f32, []int{2, 4, 2, 2}, `autograd: instance_norm(float32[2, 4, 2, 2]) in block at HERE: tensor: InstanceNorm2d: [2, 4, 2, 2]: 4 channels, the layer has 3; want [N, 3, H, W]`},
			{f32, []int{3}, `autograd: instance_norm(float32[3]) in block at HERE: tensor: InstanceNorm2d: [3]: 1 dimension; want [N, 3, H, W]`},
			{f64, []int{2, 3, 2, 2}, `autograd: instance_norm_affine(float64[2, 3, 2, 2], float32[3], float32[3]) in block at HERE: tensor: GroupNorm: float64 and float32: weight and bias have the input's type, or float32 for half precision; To converts`},
		}},
		{nn.LSTM(3, 2), []wrong{
			{f32, []int{2, 1, 4}, `autograd: lstm(float32[2, 1, 4]) in block at HERE: tensor: LSTM(3, 2): [2, 1, 4]: the input has 4 features, the layer takes 3`},
			{f32, []int{3}, `autograd: lstm(float32[3]) in block at HERE: tensor: LSTM(3, 2): [3]: the input has 1 dimension; want [T, N, 3], or [T, 3] for one sequence alone`},
			{f64, []int{2, 1, 3}, `autograd: lstm_bias(float64[2, 1, 3], float64[1, 2], float64[1, 2], float32[8, 3], float32[8, 2], float32[8], float32[8]) in block at HERE: tensor: Recurrent: float64 and float64 and float32 and float32 and float64 and float32 and float32: operands must have one type; To converts`},
		}},
		{nn.GRU(3, 2, nn.BatchFirst()), []wrong{
			{f32, []int{2, 1, 4}, `autograd: gru(float32[2, 1, 4]) in block at HERE: tensor: GRU(3, 2, batch_first=True): [2, 1, 4]: the input has 4 features, the layer takes 3`},
			{f32, []int{3}, `autograd: gru(float32[3]) in block at HERE: tensor: GRU(3, 2, batch_first=True): [3]: the input has 1 dimension; want [N, T, 3], or [T, 3] for one sequence alone`},
			{f64, []int{2, 1, 3}, `autograd: gru_bias(float64[1, 2, 3], float64[2, 2], float32[6, 3], float32[6, 2], float32[6], float32[6]) in block at HERE: tensor: Recurrent: float64 and float64 and float32 and float32 and float32 and float32: operands must have one type; To converts`},
		}},
		{nn.LSTMCell(3, 2), []wrong{
			{f32, []int{1, 4}, `autograd: lstm_cell(float32[1, 4]) in block at HERE: tensor: LSTMCell(3, 2): [1, 4]: the input has 4 features, the layer takes 3`},
			{f32, []int{1, 1, 3}, `autograd: lstm_cell(float32[1, 1, 3]) in block at HERE: tensor: LSTMCell(3, 2): [1, 1, 3]: the input has 3 dimensions; want [N, 3], or [3] for one sequence alone`},
			{f64, []int{1, 3}, `autograd: lstm_bias(float64[1, 1, 3], float64[1, 2], float64[1, 2], float32[8, 3], float32[8, 2], float32[8], float32[8]) in block at HERE: tensor: Recurrent: float64 and float64 and float32 and float32 and float64 and float32 and float32: operands must have one type; To converts`},
		}},
		{nn.GRUCell(3, 2), []wrong{
			{f32, []int{1, 4}, `autograd: gru_cell(float32[1, 4]) in block at HERE: tensor: GRUCell(3, 2): [1, 4]: the input has 4 features, the layer takes 3`},
			{f32, []int{1, 1, 3}, `autograd: gru_cell(float32[1, 1, 3]) in block at HERE: tensor: GRUCell(3, 2): [1, 1, 3]: the input has 3 dimensions; want [N, 3], or [3] for one sequence alone`},
			{f64, []int{1, 3}, `autograd: gru_bias(float64[1, 1, 3], float64[1, 2], float32[6, 3], float32[6, 2], float32[6], float32[6]) in block at HERE: tensor: Recurrent: float64 and float64 and float32 and float32 and float32 and float32: operands must have one type; To converts`},
		}},
		{nn.MultiheadAttention(4, 2), []wrong{
			{f32, []int{3, 1, 6}, `autograd: attention(float32[3, 1, 6], float32[3, 1, 6], float32[3, 1, 6]) in block at HERE: tensor: MultiheadAttention(embed_dim=4, num_heads=2): [3, 1, 6]: the query has 6 features, the layer takes 4`},
			{f32, []int{4}, `autograd: attention(float32[4], float32[4], float32[4]) in block at HERE: tensor: MultiheadAttention(embed_dim=4, num_heads=2): [4]: the query has 1 dimension; want [T, N, 4], or [T, 4] without a batch, for query, key and value alike`},
			{f64, []int{3, 1, 4}, `autograd: linear_bias(float64[3, 1, 4], float32[12, 4], float32[12]) in block at HERE: tensor: Linear: float64 and float32 and float32: operands must have one type; To converts`},
		}},
		{nn.TransformerBlock(4, 2, nn.FeedForward(8)), []wrong{
			{f32, []int{3, 1, 6}, `autograd: attention(float32[3, 1, 6], float32[3, 1, 6], float32[3, 1, 6]) in block.self_attn at HERE: tensor: MultiheadAttention(embed_dim=4, num_heads=2): [3, 1, 6]: the query has 6 features, the layer takes 4`},
			{f32, []int{4}, `autograd: attention(float32[4], float32[4], float32[4]) in block.self_attn at HERE: tensor: MultiheadAttention(embed_dim=4, num_heads=2): [4]: the query has 1 dimension; want [T, N, 4], or [T, 4] without a batch, for query, key and value alike`},
			{f64, []int{3, 1, 4}, `autograd: linear_bias(float64[3, 1, 4], float32[12, 4], float32[12]) in block.self_attn at HERE: tensor: Linear: float64 and float32 and float32: operands must have one type; To converts`},
		}},
		{nn.MaxPool1d(2), []wrong{
			{f32, []int{1, 1, 1}, `autograd: max_pool1d(float32[1, 1, 1]) in block at HERE: tensor: MaxPool1d: [1, 1, 1, 1]: the window of 2 is larger than the padded image`},
			{f32, []int{4}, `autograd: max_pool1d(float32[4]) in block at HERE: tensor: MaxPool1d: [4]: the image has 1 dimension; want [N, C, L] or [C, L]`},
			{i64, []int{1, 1, 4}, `autograd: max_pool1d(int64[1, 1, 4]) in block at HERE: tensor: MaxPool1d: int64: needs a floating-point type`},
		}},
		{nn.AvgPool2d(2), []wrong{
			{f32, []int{1, 1, 1, 1}, `autograd: avg_pool2d(float32[1, 1, 1, 1]) in block at HERE: tensor: AvgPool2d: [1, 1, 1, 1]: the window of 2 is larger than the padded image`},
			{f32, []int{4}, `autograd: avg_pool2d(float32[4]) in block at HERE: tensor: AvgPool2d: [4]: the image has 1 dimension; want [N, C, H, W] or [C, H, W]`},
			{i64, []int{1, 1, 4, 4}, `autograd: avg_pool2d(int64[1, 1, 4, 4]) in block at HERE: tensor: AvgPool2d: int64: needs a floating-point type`},
		}},
		{nn.AdaptiveAvgPool2d(2), []wrong{
			{f32, []int{1, 1, 0, 1}, `autograd: adaptive_avg_pool2d(float32[1, 1, 0, 1]) in block at HERE: tensor: AvgPool2d: [1, 1, 0, 1]: only the batch may be empty`},
			{f32, []int{4}, `autograd: adaptive_avg_pool2d(float32[4]) in block at HERE: tensor: AvgPool2d: [4]: the image has 1 dimension; want [N, C, H, W] or [C, H, W]`},
			{i64, []int{1, 1, 4, 4}, `autograd: adaptive_avg_pool2d(int64[1, 1, 4, 4]) in block at HERE: tensor: AvgPool2d: int64: needs a floating-point type`},
		}},
		{nn.Upsample(nn.Bilinear2d, tensor.Upsample{Scale: []float64{2}}), []wrong{
			{f32, []int{4}, `autograd: upsample_bilinear2d(float32[4]) in block at HERE: tensor: UpsampleBilinear2d: [4]: images are [N, C, H, W] with rows and columns`},
			{i64, []int{1, 1, 4, 4}, `autograd: upsample_bilinear2d(int64[1, 1, 4, 4]) in block at HERE: tensor: UpsampleBilinear2d: int64: needs a floating-point type`},
		}},
		{nn.Dropout(0.5), []wrong{
			{i64, []int{1}, `autograd: dropout(int64[1]) in block at HERE: tensor: Dropout: int64: needs a floating-point type`},
		}},
		{&nn.DropoutLayer{P: 1.5}, []wrong{
			{f32, []int{1}, `autograd: dropout(float32[1]) in block at HERE: tensor: Dropout: the probability is 1.5; it must be in 0..1`},
		}},
		{nn.Softmax(1), []wrong{
			{f32, []int{2}, `autograd: softmax(float32[2]) in block at HERE: tensor: Softmax: [2]: dimension 1 is not in -1..0`},
			{i64, []int{1, 2}, `autograd: softmax(int64[1, 2]) in block at HERE: tensor: Softmax: int64: needs a floating-point type`},
		}},
		{nn.Flatten(), []wrong{
			{f32, []int{}, `autograd: flatten(float32[]) in block at HERE: tensor: Flatten: []: dimension 1 is not in -1..0`},
		}},
		{nn.GELU(), []wrong{
			{i64, []int{1, 2}, `autograd: gelu(int64[1, 2]) in block at HERE: tensor: GELU: int64: needs a floating-point type`},
		}},
		{nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(4, 2)), []wrong{
			{f32, []int{1, 3}, `autograd: linear_bias(float32[1, 3], float32[2, 4], float32[2]) in block.2 at HERE: tensor: Linear: [1, 3] and [2, 4] and [2]: the input has 3 features, weights of shape [2, 4] take 4`},
		}},
	} {
		t.Run(fmt.Sprint(c.layer), func(t *testing.T) {
			r := onHost(t)
			m := within(c.layer)
			r.place(m)
			for _, w := range c.wrong {
				g := r.graph()
				m.Forward(g.Input(zeros(t, r, w.dtype, w.shape...)))
				require.Equal(t, w.want, message(g.Err()), "%s%v", w.dtype, w.shape)
				var op *autograd.OpError
				require.ErrorAs(t, g.Err(), &op)
				require.Contains(t, op.Module, "block")
				g.Release()
			}
		})
	}
}

func TestMessages_OfLosses(t *testing.T) {
	r := onHost(t)
	for _, c := range []struct {
		name               string
		loss               nn.Loss
		prediction, target wrong
		want               string
	}{
		{"shape", nn.CrossEntropyLoss(), wrong{dtype: f32, shape: []int{2, 3}}, wrong{dtype: i64, shape: []int{4}},
			`autograd: cross_entropy(float32[2, 3], int64[4]) at HERE: tensor: CrossEntropy: [2, 3] and [4]: the classes have shape [4], want [2]: dimension 1 of the logits holds the 3 classes of each`},
		{"float labels", nn.CrossEntropyLoss(), wrong{dtype: f32, shape: []int{2, 3}}, wrong{dtype: f32, shape: []int{2}},
			`autograd: cross_entropy(float32[2, 3], float32[2]) at HERE: tensor: CrossEntropy: [2, 3] and [2]: a float32 target holds probabilities and has the shape of the logits; a target of classes is int64 (Variable.To) of shape [2]`},
		{"sequence", nn.CrossEntropyLoss(), wrong{dtype: f32, shape: []int{2, 3, 4}}, wrong{dtype: i64, shape: []int{2, 3}},
			`autograd: cross_entropy(float32[2, 3, 4], int64[2, 3]) at HERE: tensor: CrossEntropy: [2, 3, 4] and [2, 3]: the classes have shape [2, 3], want [2, 4]: dimension 1 of the logits holds the 3 classes of each`},
		{"batch alone", nn.CrossEntropyLoss(), wrong{dtype: f32, shape: []int{2, 3, 4}}, wrong{dtype: i64, shape: []int{2}},
			`autograd: cross_entropy(float32[2, 3, 4], int64[2]) at HERE: tensor: CrossEntropy: [2, 3, 4] and [2]: the classes have shape [2], want [2, 4]: dimension 1 of the logits holds the 3 classes of each`},
		{"column", nn.CrossEntropyLoss(), wrong{dtype: f32, shape: []int{2, 3}}, wrong{dtype: i64, shape: []int{2, 1}},
			`autograd: cross_entropy(float32[2, 3], int64[2, 1]) at HERE: tensor: CrossEntropy: [2, 3] and [2, 1]: the classes have shape [2, 1], want [2]: dimension 1 of the logits holds the 3 classes of each`},
		{"scalar", nn.CrossEntropyLoss(), wrong{dtype: f32, shape: []int{}}, wrong{dtype: i64, shape: []int{}},
			`autograd: cross_entropy(float32[], int64[]) at HERE: tensor: CrossEntropy: [] and []: logits have no dimension of classes; want [N, C], [C] or [N, C, d1, ...]`},
		{"int32 labels", nn.CrossEntropyLoss(), wrong{dtype: f32, shape: []int{2, 3}}, wrong{dtype: i32, shape: []int{2}},
			`autograd: cross_entropy(float32[2, 3], int32[2]) at HERE: tensor: CrossEntropy: float32 and int32: classes are int32, want int64, the number of the class of each row; To converts`},
		{"integer logits", nn.CrossEntropyLoss(), wrong{dtype: i64, shape: []int{2, 3}}, wrong{dtype: i64, shape: []int{2}},
			`autograd: cross_entropy(int64[2, 3], int64[2]) at HERE: tensor: CrossEntropy: int64 and int64: logits are int64, want a floating-point type; To converts`},
		{"probabilities", nn.CrossEntropyLoss(autograd.IgnoreIndex(1)), wrong{dtype: f32, shape: []int{2, 3}}, wrong{dtype: f32, shape: []int{2, 3}},
			`autograd: cross_entropy(float32[2, 3], float32[2, 3]) at HERE: tensor: CrossEntropy: IgnoreIndex(1): probabilities have no class to ignore`},
		{"shape", nn.NLLLoss(), wrong{dtype: f32, shape: []int{2, 3}}, wrong{dtype: i64, shape: []int{4}},
			`autograd: nll_loss(float32[2, 3], int64[4]) at HERE: tensor: NLLLoss: [2, 3] and [4]: the classes have shape [4], want [2]: dimension 1 of the logits holds the 3 classes of each`},
		{"float labels", nn.NLLLoss(), wrong{dtype: f32, shape: []int{2, 3}}, wrong{dtype: f32, shape: []int{2}},
			`autograd: nll_loss(float32[2, 3], float32[2]) at HERE: tensor: NLL: float32 and float32: classes are float32, want int64, the number of the class of each row; To converts`},
		{"sequence", nn.NLLLoss(), wrong{dtype: f32, shape: []int{2, 3, 4}}, wrong{dtype: i64, shape: []int{2, 3}},
			`autograd: nll_loss(float32[2, 3, 4], int64[2, 3]) at HERE: tensor: NLLLoss: [2, 3, 4] and [2, 3]: the classes have shape [2, 3], want [2, 4]: dimension 1 of the logits holds the 3 classes of each`},
		{"shape", nn.MSELoss(), wrong{dtype: f32, shape: []int{2, 3}}, wrong{dtype: f32, shape: []int{2, 4}},
			`autograd: mse_loss(float32[2, 3], float32[2, 4]) at HERE: tensor: MSELoss: [2, 3] and [2, 4]: shapes do not broadcast`},
		{"integers", nn.MSELoss(), wrong{dtype: i64, shape: []int{2, 3}}, wrong{dtype: i64, shape: []int{2, 3}},
			`autograd: mse_loss(int64[2, 3], int64[2, 3]) at HERE: tensor: MSELoss: int64 and int64: needs a floating-point type`},
		{"reduction", nn.MSELoss(autograd.BatchMeanReduction), wrong{dtype: f32, shape: []int{2}}, wrong{dtype: f32, shape: []int{2}},
			`autograd: mse_loss(float32[2], float32[2]) at HERE: batchmean is not a reduction of this loss`},
		{"shape", nn.L1Loss(), wrong{dtype: f32, shape: []int{2, 3}}, wrong{dtype: f32, shape: []int{2, 4}},
			`autograd: l1_loss(float32[2, 3], float32[2, 4]) at HERE: tensor: L1Loss: [2, 3] and [2, 4]: shapes do not broadcast`},
		{"shape", nn.SmoothL1Loss(1), wrong{dtype: f32, shape: []int{2, 3}}, wrong{dtype: f32, shape: []int{2, 4}},
			`autograd: smooth_l1_loss(float32[2, 3], float32[2, 4]) at HERE: tensor: SmoothL1Loss: [2, 3] and [2, 4]: shapes do not broadcast`},
		{"shape", nn.HuberLoss(1), wrong{dtype: f32, shape: []int{2, 3}}, wrong{dtype: f32, shape: []int{2, 4}},
			`autograd: huber_loss(float32[2, 3], float32[2, 4]) at HERE: tensor: HuberLoss: [2, 3] and [2, 4]: shapes do not broadcast`},
		{"shape", nn.KLDivLoss(false), wrong{dtype: f32, shape: []int{2, 3}}, wrong{dtype: f32, shape: []int{2, 4}},
			`autograd: kl_div(float32[2, 3], float32[2, 4]) at HERE: tensor: KLDivLoss: [2, 3] and [2, 4]: shapes do not broadcast`},
		{"shape", nn.BCELoss(), wrong{dtype: f32, shape: []int{2, 3}}, wrong{dtype: f32, shape: []int{2, 1}},
			`autograd: binary_cross_entropy(float32[2, 3], float32[2, 1]) at HERE: tensor: BCELoss: [2, 3] and [2, 1]: prediction and target must have one shape; they do not broadcast`},
		{"shape", nn.BCEWithLogitsLoss(), wrong{dtype: f32, shape: []int{2, 3}}, wrong{dtype: f32, shape: []int{2, 1}},
			`autograd: binary_cross_entropy_with_logits(float32[2, 3], float32[2, 1]) at HERE: tensor: BCEWithLogitsLoss: [2, 3] and [2, 1]: prediction and target must have one shape; they do not broadcast`},
	} {
		g := r.graph()
		c.loss(g.Input(zeros(t, r, c.prediction.dtype, c.prediction.shape...)), g.Input(zeros(t, r, c.target.dtype, c.target.shape...)))
		require.Equal(t, c.want, message(g.Err()), c.name)
		g.Release()
	}
}

// forgetful is a model that forgets to register a layer.
type forgetful struct {
	nn.Base
	kept, lost *nn.LinearLayer
}

func (f *forgetful) Forward(x *autograd.Variable) *autograd.Variable {
	return f.Scope(x, func(*autograd.Graph) *autograd.Variable { return f.lost.Forward(f.kept.Forward(x)) })
}

func TestMessages_OfParametersWithoutATensor(t *testing.T) {
	r := onHost(t)
	x := zeros(t, r, f32, 1, 2)
	lost := &forgetful{kept: nn.Linear(2, 2), lost: nn.Linear(2, 2)}
	nn.RegisterField(&lost.Base, "kept", &lost.kept)
	released := nn.Sequential(nn.Sequential(nn.Linear(2, 2)))
	replaced := nn.Sequential(nn.Linear(2, 2))
	emptied := nn.Sequential(nn.TransformerBlock(2, 1))
	gone := nn.Sequential(nn.TransformerBlock(2, 1), nn.MultiheadAttention(2, 1))
	for _, m := range []nn.Layer{lost, released, replaced, emptied, gone} {
		r.place(m)
		for _, p := range m.Parameters() { // those that the model loses below are nobody's
			t.Cleanup(p.Release)
		}
	}
	released.Release()
	replaced.At(0).(*nn.LinearLayer).Bias = autograd.DeclareParameter("another", nn.Zeros, 2)
	emptied.At(0).(*nn.TransformerBlockLayer).Norm2.Weight = nil
	emptied.At(0).(*nn.TransformerBlockLayer).Norm2.Bias = nil
	emptied.At(0).(*nn.TransformerBlockLayer).Linear2.Weight = nil
	gone.At(0).(*nn.TransformerBlockLayer).Norm1 = nil
	var none *nn.ConvLayer
	const linear = "Linear(in_features=2, out_features=2, bias=True)"
	for _, c := range []struct {
		m    nn.Layer
		want string
	}{
		{nn.Sequential(nn.Sequential(nn.Linear(2, 2))), `autograd: param in 0.0 at HERE: parameter "0.0.weight" [2, 2] of ` + linear +
			" has no tensor: To has not reached the layer: call To on the model and, if that was done, put the layer into an exported field there or register it (Register, RegisterField)"},
		{lost, `autograd: param at HERE: parameter "weight" [2, 2] of ` + linear +
			" has no tensor: To has not reached the layer: call To on the model and, if that was done, put the layer into an exported field there or register it (Register, RegisterField)"},
		{released, `autograd: param in 0.0 at HERE: parameter "0.0.weight" [2, 2] of ` + linear +
			" has no tensor: it was not materialized yet (To on the model), or it was released"},
		{replaced, `autograd: param in 0 at HERE: parameter "0.bias" [2] of ` + linear +
			" has no tensor: it was not materialized yet (To on the model), or it was released"},
		{emptied, "autograd: param in 0.linear2 at HERE: nn: Linear(in_features=0, out_features=0, bias=True): the field of parameter weight is nil"},
		{gone, "autograd: transformer_block(float32[1, 2]) in 0 at HERE: nn: TransformerBlock(width=2, heads=1, feed_forward=2048, " +
			"dropout=0.1, norm_first=False): the field of part norm1 is nil"},
		{none, "autograd: forward(float32[1, 2]) at HERE: nn: ConvLayer: the layer is nil"},
		{(*nn.CheckpointModule)(nil), "autograd: checkpoint(float32[1, 2]) at HERE: autograd: forward(float32[1, 2]) at HERE: nn: Checkpointed: the module is nil"},
		{nn.GRU(2, 2, nn.Layers(0)), "autograd: gru(float32[1, 2]) at HERE: nn: GRU: 0 layers; there must be 1 to 4096"},
	} {
		g := r.graph()
		c.m.Forward(g.Input(x))
		require.Equal(t, c.want, message(g.Err()))
		g.Release()
	}
}

func TestMessages_OfStates(t *testing.T) {
	r := onHost(t)
	lstm, gru, cell := nn.LSTM(3, 2, nn.Layers(2)), nn.GRU(3, 2, nn.BatchFirst()), nn.LSTMCell(3, 2)
	r.place(lstm)
	r.place(gru)
	r.place(cell)
	for want, run := range map[string]func(x, state *autograd.Variable){
		"autograd: lstm(float32[5, 4, 3]) at HERE: tensor: LSTM(3, 2, num_layers=2): [5, 4, 3] and [1, 4, 2]: " +
			"the state has shape [1, 4, 2], want [2, 4, 2], which is [layers*directions, N, units]": func(x, s *autograd.Variable) {
			lstm.ForwardState(x, s, nil)
		},
		"autograd: lstm(float32[5, 4, 3]) at HERE: tensor: LSTM(3, 2, num_layers=2): [5, 4, 3] and [1, 4, 2]: " +
			"the cell has shape [1, 4, 2], want [2, 4, 2], which is [layers*directions, N, units]": func(x, s *autograd.Variable) {
			lstm.ForwardState(x, nil, s)
		},
		"autograd: gru(float32[5, 4, 3]) at HERE: tensor: GRU(3, 2, batch_first=True): [5, 4, 3] and [1, 4, 2]: " +
			"the state has shape [1, 4, 2], want [1, 5, 2], which is [layers*directions, N, units]": func(x, s *autograd.Variable) {
			gru.ForwardState(x, s, nil)
		},
		"autograd: gru(float32[5, 4, 3]) at HERE: tensor: GRU(3, 2, batch_first=True): a GRU has no cell": func(x, s *autograd.Variable) {
			gru.ForwardState(x, nil, s)
		},
		"autograd: lstm_cell(float32[4, 3]) at HERE: tensor: LSTMCell(3, 2): [4, 3] and [1, 4, 2]: the state has shape [1, 4, 2], want [4, 2]": func(x, s *autograd.Variable) {
			cell.Step(x.Select(0, 0), s, nil)
		},
	} {
		g := r.graph()
		run(g.Input(zeros(t, r, f32, 5, 4, 3)), g.Input(zeros(t, r, f32, 1, 4, 2)))
		require.Equal(t, want, message(g.Err()))
		g.Release()
	}
}

func TestMessages_OfOperandsFromElsewhere(t *testing.T) {
	r, other := onHost(t), onHost(t)
	m := nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
	r.place(m)
	x, y := zeros(t, r, f32, 2, 2), zeros(t, other, f32, 2, 2)
	for want, run := range map[string]func(g, h *autograd.Graph){
		"autograd: Input(float32[2, 2]) at HERE: tensor: Input: host:N and host:N: the tensor is on host:N, the graph on host:N": func(g, _ *autograd.Graph) {
			g.Input(y)
		},
		"autograd: parameter weight(float32[2, 2]) in 0 at HERE: tensor: parameter weight: host:N and host:N: the tensor is on host:N, the graph on host:N": func(g, h *autograd.Graph) {
			m.Forward(h.Input(y))
			g.Fail(h.Err())
		},
		"autograd: mse_loss(float32[2, 2], float32[2, 2]) at HERE: variables belong to different graphs: input 1 is of another one; Take its value, and Input it here": func(g, h *autograd.Graph) {
			nn.MSELoss()(g.Input(x), h.Input(y))
		},
		"autograd: mse_loss(float32[2, 2], nil) at HERE: input 1: nil variable": func(g, _ *autograd.Graph) { nn.MSELoss()(g.Input(x), nil) },
		"autograd: Input at HERE: tensor: Input: the tensor is nil":             func(g, _ *autograd.Graph) { g.Input(nil) },
		"autograd: param at HERE: the parameter is nil":                         func(g, _ *autograd.Graph) { g.Param(nil) },
		"autograd: new at HERE: tensor: New: the tensor is nil":                 func(g, _ *autograd.Graph) { g.New(func(tensor.Exec) (*tensor.Tensor, error) { return nil, nil }) },
	} {
		g, h := r.graph(), other.graph()
		run(g, h)
		require.Equal(t, want, message(g.Err()))
		g.Release()
		h.Release()
	}
}

// Layers whose Forward is called on their concrete types are inlined here, closures and all.
func TestSite_IsTheProgramsLineWhateverIsInlined(t *testing.T) {
	r := onHost(t)
	bad := zeros(t, r, f32)
	for i, forward := range []func(x *autograd.Variable) *autograd.Variable{
		func(x *autograd.Variable) *autograd.Variable { return nn.Linear(2, 2).Forward(x) },
		func(x *autograd.Variable) *autograd.Variable { return nn.Conv2d(2, 2, 1).Forward(x) },
		func(x *autograd.Variable) *autograd.Variable { return nn.ConvTranspose1d(2, 2, 1).Forward(x) },
		func(x *autograd.Variable) *autograd.Variable {
			return nn.LayerNorm([]int{2}, nn.Affine(false)).Forward(x)
		},
		func(x *autograd.Variable) *autograd.Variable {
			return nn.RMSNorm([]int{2}, nn.Affine(false)).Forward(x)
		},
		func(x *autograd.Variable) *autograd.Variable { return nn.GroupNorm(1, 2).Forward(x) },
		func(x *autograd.Variable) *autograd.Variable { return nn.BatchNorm2d(2).Forward(x) },
		func(x *autograd.Variable) *autograd.Variable { return nn.InstanceNorm2d(2).Forward(x) },
		func(x *autograd.Variable) *autograd.Variable { return nn.Embedding(2, 2).Forward(x) },
		func(x *autograd.Variable) *autograd.Variable { return nn.LSTM(2, 2).Forward(x) },
		func(x *autograd.Variable) *autograd.Variable { return nn.GRUCell(2, 2).Forward(x) },
		func(x *autograd.Variable) *autograd.Variable { return nn.MultiheadAttention(2, 1).Forward(x) },
		func(x *autograd.Variable) *autograd.Variable { return nn.TransformerBlock(2, 1).Forward(x) },
		func(x *autograd.Variable) *autograd.Variable { return nn.MaxPool2d(2).Forward(x) },
		func(x *autograd.Variable) *autograd.Variable { return nn.Softmax(3).Forward(x) },
		func(x *autograd.Variable) *autograd.Variable { return nn.Dropout(2).Forward(x) },
		func(x *autograd.Variable) *autograd.Variable { return nn.Checkpointed(nn.Softmax(3)).Forward(x) },
		func(x *autograd.Variable) *autograd.Variable { return nn.CrossEntropyLoss()(x, x) },
		func(x *autograd.Variable) *autograd.Variable { return deepIn(100, nn.Softmax(3)).Forward(x) },
	} {
		g := r.graph()
		forward(g.Input(bad))
		var op *autograd.OpError
		require.ErrorAs(t, g.Err(), &op, i)
		require.Regexp(t, site, op.Site.String(), "%d: %v", i, g.Err())
		g.Release()
	}
}

// deepIn is m in so many modules.
func deepIn(n int, m nn.Layer) nn.Layer {
	for range n {
		m = nn.Sequential(m)
	}
	return m
}

func TestForward_OfAModelThatIsAPartOfItself_IsAnError(t *testing.T) {
	r := onHost(t)
	inner := nn.Checkpointed(nn.ReLU())
	m := nn.Sequential(within(nn.ReLU()))
	inner.Layer = m
	m.At(0).(*around).block = m
	g := r.graph()
	defer g.Release()
	m.Forward(g.Input(zeros(t, r, f32, 1)))
	require.ErrorContains(t, g.Err(), "modules are nested more than 10000 deep: one is a part of itself")
}

func TestMessages_OfBackward(t *testing.T) {
	r := onHost(t)
	m := within(nn.Sequential(nn.Linear(2, 2, nn.NoBias()), nn.Linear(2, 2, nn.NoBias())))
	r.place(m)
	x := zeros(t, r, f32, 1, 2)
	weight := m.block.(*nn.SequentialModule).At(1).(*nn.LinearLayer).Weight
	const start = "one of the variables needed for gradient computation has been modified by an in-place operation: "
	for _, c := range []struct {
		opts []autograd.Option
		want string
	}{
		{nil, `parameter "weight" float32[2, 2], which is input 1 of linear in block.1, is at version V; expected version V instead; ` +
			"a graph with DetectAnomaly says at which lines"},
		{[]autograd.Option{autograd.DetectAnomaly()}, `parameter "weight" float32[2, 2], which is input 1 of linear in block.1 at HERE, ` +
			"is at version V; expected version V instead; it was changed at HERE"},
	} {
		g := r.graph(c.opts...)
		loss := m.Forward(g.Input(x)).Sum(nil, false)
		require.NoError(t, weight.Tensor().FillInPlace(1))
		require.Equal(t, start+c.want, regexp.MustCompile(`version \d+`).ReplaceAllString(message(loss.Backward()), "version V"))
		g.Release()
	}
	g := r.graph()
	defer g.Release()
	y := m.Forward(g.Input(x)).Sigmoid()
	loss := y.Sum(nil, false)
	y.ReLUInPlace()
	require.Contains(t, message(loss.Backward()), "float32[1, 2], which is the output of sigmoid, is at version 1; expected version 0 instead; relu_ changed it")
}

// A recurrent layer that is composed of other operations says itself what is wrong with what it was given, as with one length too.
func TestRNN_RefusesWhatItWasGiven_InItsOwnName(t *testing.T) {
	r := onHost(t)
	lstm, rnn := nn.LSTM(3, 2), nn.RNN(3, 2)
	r.place(nn.Sequential(nn.Tanh(), lstm, rnn))
	some, all := []int{1, 5, 2, 3}, []int{5, 5, 5, 5}
	f64 := tensor.Float64
	for want, run := range map[string]func(x, s, wide *autograd.Variable){
		"autograd: lstm(float64[5, 4, 3]) in 1 at HERE: tensor: LSTM(3, 2): float64 and float32: the input must be of the weights' type; To converts": func(x, _, _ *autograd.Variable) {
			lstm.ForwardLengths(x.To(f64), some, nil, nil)
		},
		"autograd: lstm(int64[5, 4, 3]) in 1 at HERE: tensor: LSTM(3, 2): int64 and float32: the input must be of the weights' type; To converts": func(x, _, _ *autograd.Variable) {
			lstm.ForwardLengths(x.To(tensor.Int64), all, nil, nil)
		},
		"autograd: rnn(float32[5, 4, 3]) in 2 at HERE: tensor: RNN(3, 2): float64 and float32: the state must be of the weights' type; To converts": func(x, _, wide *autograd.Variable) {
			rnn.ForwardState(x, wide, nil)
		},
		"autograd: lstm(float32[5, 4, 3]) in 1 at HERE: tensor: LSTM(3, 2): float64 and float32: the cell must be of the weights' type; To converts": func(x, s, wide *autograd.Variable) {
			lstm.ForwardLengths(x, some, s, wide)
		},
		"autograd: lstm(float32[5, 4, 3]) in 1 at HERE: the input of LSTM(3, 2): value of float32[5, 4, 3] was released: it was taken out of the graph with Take": func(x, _, _ *autograd.Variable) {
			taken, err := x.Take()
			require.NoError(t, err)
			taken.Release()
			lstm.ForwardLengths(x, some, nil, nil)
		},
		"autograd: rnn(float32[5, 4, 3]) in 2 at HERE: tensor: RNN(3, 2): an RNN has no cell": func(x, s, _ *autograd.Variable) {
			rnn.ForwardState(x, nil, s)
		},
		"autograd: lstm(float32[0, 4, 3]) in 1 at HERE: tensor: LSTM(3, 2): [0, 4, 3]: the sequences have no steps": func(x, _, _ *autograd.Variable) {
			lstm.ForwardLengths(x.Narrow(0, 0, 0), some, nil, nil)
		},
	} {
		g := r.graph()
		run(g.Input(zeros(t, r, f32, 5, 4, 3)), g.Input(zeros(t, r, f32, 1, 4, 2)), g.Input(zeros(t, r, f64, 1, 4, 2)))
		require.Equal(t, want, message(g.Err()))
		g.Release()
	}
	require.EqualError(t, nn.Sequential(nn.LSTM(2, 3, nn.Layers(0))).To(r.dev), "nn: parameter 0.weight_ih_l0: nn: LSTM: 0 layers; there must be 1 to 4096")
}
