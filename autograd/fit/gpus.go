package fit

import (
	"errors"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

// GPU is a model of GPU and its memory.
type GPU struct {
	Name   string
	Memory uint64 // bytes that the driver says it has (cuMemGetInfo), somewhat less than the name promises
	Source string // a public report with this figure, in the form repository#issue
}

// gib is n hundredths of a GiB, rounded down to 2 MiB as drivers count.
func gib(hundredths uint64) uint64 {
	return hundredths * device.GiB / 100 / (2 * device.MiB) * (2 * device.MiB)
}

// gpus are figures of the driver as out-of-memory errors of PyTorch and start-up messages have them. They differ by up to 1 % with the driver and error
// correction: where several were found, the least is here.
var gpus = []GPU{
	{"H100", gib(7911), "vllm-project/vllm#27508"},
	{"H100-NVL", gib(9300), "ali-vilab/VACE#56"},
	{"A100", gib(7925), "levihsu/OOTDiffusion#235"},
	{"A100-80GB", gib(7925), "levihsu/OOTDiffusion#235"},
	{"A100-40GB", gib(3950), "TianheWu/CoSeR#10"},
	{"A30", gib(2353), "google/RB-Modulation#5"},
	{"L40", gib(4440), "QwenLM/Qwen3-VL#2097"},
	{"V100-32GB", gib(3175), "hiyouga/LlamaFactory#182"},
	{"T4", gib(1475), "hpcaitech/Open-Sora#697"},
	{"RTX A6000", gib(4754), "google-research/semivl#18"},
	{"RTX 5090", gib(3137), "Wan-Video/Wan2.1#465"},
	{"RTX 4090", gib(2352), "vllm-project/vllm#42049"},
	{"RTX 3090", gib(2370), "Lightning-AI/lit-llama#137"},
	{"RTX 2080 Ti", gib(1076), "JDAI-CV/image-captioning#10"},
}

// GPUs lists the models that Capacity knows.
func GPUs() []GPU { return slices.Clone(gpus) }

// Capacity is the memory in bytes of a device: a GPU's by its name ("H100", "rtx 4090", "A100-40GB"; GPUs lists them), a simulated device's
// ("sim:80GiB"), or a number with a unit ("24GiB"). Anything else is a *device.ParseError.
func Capacity(name string) (uint64, error) {
	spec, err := device.ParseSpec(name)
	if err == nil && spec.Kind == device.Sim {
		if spec.Capacity == 0 {
			spec.Capacity = sim.DefaultCapacity
		}
		return spec.Capacity, nil
	}
	if g, ok := FindGPU(name); ok {
		return g.Memory, nil
	}
	n, wrong := device.ParseBytes(name)
	if wrong == nil && n > 0 && strings.Trim(name, "0123456789") != "" {
		return n, nil
	}
	names := make([]string, len(gpus))
	for i, g := range gpus {
		names[i] = g.Name
	}
	return 0, &device.ParseError{What: "device to fit", Value: name, Allowed: `"sim:80GiB", "80GiB", ` + strings.Join(names, ", "), Reason: whyNot(name, n, err, wrong)}
}

// whyNot says what is wrong with a name that was read as a specification, and as a number n of bytes.
func whyNot(name string, n uint64, asSpec, asBytes error) string {
	var wrong *device.ParseError
	switch kind, _, _ := strings.Cut(name, ":"); {
	case asSpec == nil:
		return "what fits is tried on simulated devices"
	case kind == device.Sim.String() && errors.As(asSpec, &wrong): // it cannot be anything else
		return wrong.Reason
	case asBytes == nil && n == 0:
		return "the capacity is 0"
	case asBytes == nil:
		return "a number needs a unit"
	case name == "":
		return "it is empty"
	case strings.ContainsAny(name[:1], "0123456789.+-") && errors.As(asBytes, &wrong):
		return wrong.Reason
	}
	return "no GPU of that name is known"
}

// FindGPU is the GPU that Capacity takes a name for, if it is one's.
func FindGPU(name string) (GPU, bool) {
	i := slices.IndexFunc(gpus, func(g GPU) bool { return plain(g.Name) == plain(name) })
	if i < 0 {
		return GPU{}, false
	}
	return gpus[i], true
}

// plain is a name without what people write differently.
func plain(name string) string {
	name = strings.NewReplacer(" ", "", "-", "", "_", "").Replace(strings.ToLower(name))
	return strings.TrimPrefix(strings.TrimPrefix(name, "nvidia"), "geforce")
}
