package timeline

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
)

// firstGPU is the number of the process before those of GPUs' own times: the others come first.
const firstGPU = 1000

// profile starts profiles of those devices that are GPUs. After an error there are none.
func (t *Timeline) profile(devices []device.Device) error {
	for _, dev := range devices {
		d, ok := dev.(*cuda.Device)
		if !ok || d == nil {
			continue
		}
		p, err := d.StartProfile()
		if err != nil {
			t.stopProfiles()
			return err
		}
		t.profiles = append(t.profiles, p)
	}
	return nil
}

func (t *Timeline) stopProfiles() {
	for _, p := range t.profiles {
		p.Stop()
	}
}

// profiled writes what GPUs did by their own times, on the scale of the timeline.
func (o *writer) profiled(t *Timeline) {
	for _, p := range t.profiles {
		var text bytes.Buffer
		if o.err == nil {
			o.err = p.WriteTrace(&text)
		}
		var trace struct {
			Events []map[string]any `json:"traceEvents"`
		}
		if o.err == nil {
			o.err = json.Unmarshal(text.Bytes(), &trace)
		}
		for _, e := range trace.Events {
			o.shifted(e, p.Epoch().Sub(t.start))
		}
	}
}

// shifted writes an event of a profile whose time 0 is so long after the start.
func (o *writer) shifted(e map[string]any, by time.Duration) {
	if pid, ok := e["pid"].(float64); ok {
		e["pid"] = firstGPU + pid
	}
	if ts, ok := e["ts"].(float64); ok {
		e["ts"] = ts + microseconds(by)
	}
	if e["name"] == "process_sort_index" {
		e["args"] = map[string]any{"sort_index": e["pid"]}
	}
	o.event(e)
}
