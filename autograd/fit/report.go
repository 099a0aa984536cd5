package fit

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/plural"
)

// Report is what a search found: the plain settings first.
type Report struct {
	Device   string // its name, if DeviceName gave one
	Capacity uint64 // of the device, in bytes
	Occupied uint64 // by others

	// AllocatorConfig is what the environment (CISTERN_ALLOC_CONF) has set of the allocators, but for expandable segments, as memory.Config writes it. Without
	// settings it is empty.
	AllocatorConfig string

	Results []Result
}

// Result is what was found under one combination of settings.
type Result struct {
	Precision  string `json:"precision"` // float32, float16 or bfloat16
	Checkpoint bool   `json:"checkpoint"`
	Expandable bool   `json:"expandable"`

	LargestBatch  int   `json:"largest_batch"`        // 0 if not even the smallest fits
	PeakAllocated int64 `json:"peak_allocated_bytes"` // with the largest batch; as AtPeak it is of all that the program did, also if it resets peaks
	PeakReserved  int64 `json:"peak_reserved_bytes"`
	PerSample     int64 `json:"bytes_per_sample"` // by which the allocated bytes grow with one sample more, about the largest batch
	AtMax         bool  `json:"at_max_batch"`     // the search ended at MaxBatch: larger ones may fit

	// TooLarge is the smallest batch that was tried and does not fit, 0 if all did. It may be less than LargestBatch, which then fits by where
	// its blocks happen to lie, or as a program wants more memory for less.
	TooLarge int `json:"too_large"`

	// Err is why TooLarge does not fit. The *memory.OOMError of the first request that failed is in it, and the program's own error, if it returned another one.
	Err error `json:"-"`

	// Steps is how many steps the largest batch was tried for, of all loops over Trial.Steps, 0 if the program counts them itself. With Steady memory has
	// repeated itself in each loop, and so does in all later steps that are like them; without, a later step may fail. LeftEarly is that the program has left a
	// loop (break, return) before that was known.
	Steps     int  `json:"steps"`
	Steady    bool `json:"steady"`
	LeftEarly bool `json:"left_early"`

	AtPeak []Part `json:"at_peak"`     // what the allocated bytes are at their peak; nil if that is not known
	Reads  uint64 `json:"value_reads"` // copies of values to the host, which are zeros here
	Trials int    `json:"trials"`
}

// String is a table: what each combination of settings gives, and what the memory is used for at the peak.
func (r *Report) String() string {
	if r == nil {
		return "fit: no report"
	}
	var s strings.Builder
	s.WriteString("largest batch on ")
	if r.Device != "" {
		s.WriteString(r.Device + ", ")
	}
	s.WriteString(device.FormatBytes(r.Capacity))
	if r.Occupied > 0 {
		fmt.Fprintf(&s, ", of which others have %s", device.FormatBytes(r.Occupied))
	}
	if r.AllocatorConfig != "" {
		fmt.Fprintf(&s, ", with %s of the environment", r.AllocatorConfig)
	}
	s.WriteString("\n\n")
	table := tabwriter.NewWriter(&s, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "precision\tcheckpoint\texpandable\tbatch\t\tper sample\tallocated\treserved\tat the peak")
	for i := range r.Results {
		r.Results[i].row(table, r.Results[0].LargestBatch)
	}
	table.Flush()
	r.remarks(&s)
	return s.String()
}

// remarks are what the table does not say.
func (r *Report) remarks(s *strings.Builder) {
	has := func(f func(*Result) bool) bool {
		return slices.ContainsFunc(r.Results, func(r Result) bool { return f(&r) })
	}
	if i := slices.IndexFunc(r.Results, func(r Result) bool { return r.none() }); i >= 0 {
		s.WriteString("\nWhere the batch is \"none\", not even the smallest fits")
		if first := &r.Results[i]; first.Err != nil {
			fmt.Fprintf(s, ". A batch of %d with %s fails: %v\n", first.TooLarge, first.settings(), first.Err)
		} else {
			s.WriteString(".\n")
		}
	}
	if has((*Result).lucky) {
		s.WriteString("\nA batch with \"not\" behind it fits by where its blocks happen to lie: some smaller ones, from that on, do not.\n")
	}
	if has(func(r *Result) bool { return r.open() && r.Steps > 0 && !r.LeftEarly }) {
		s.WriteString("\nA batch with \"steps\" behind it was tried for so many, in which memory did not come to repeat itself, as where the cache is emptied in each: a later one may fail.\n")
	}
	if has(func(r *Result) bool { return r.open() && r.LeftEarly }) {
		s.WriteString("\nThe program left a loop over Trial.Steps before its memory had repeated itself: whether later steps fit is not known.\n")
	}
	if has(func(r *Result) bool { return r.open() && r.Steps == 0 }) {
		s.WriteString("\nThe program counts its steps itself: whether later ones fit is not known. With Trial.Steps each batch is tried until its memory repeats itself.\n")
	}
	if len(r.Results) > 0 && r.Occupied == 0 {
		s.WriteString("\nNothing is set aside for a GPU's driver, which keeps some hundred megabytes, nor for other programs: Occupied does (-occupied 600MiB).\n")
	}
	if n := r.reads(); n > 0 {
		fmt.Fprintf(s, "\nReads of values, up to %d in a trial, gave zeros: what the program decides by them may be different where they are computed.\n", n)
	}
}

// settings are those of the result, in words.
func (r *Result) settings() string {
	text := r.Precision
	if r.Checkpoint {
		text += ", checkpointed"
	}
	if r.Expandable {
		text += ", expandable segments"
	}
	return text
}

// none reports whether nothing fits.
func (r *Result) none() bool { return r.LargestBatch == 0 }

// open reports whether a later step may fail.
func (r *Result) open() bool { return r.LargestBatch > 0 && !r.Steady }

// reads is how often values were read at most.
func (r *Report) reads() (most uint64) {
	for i := range r.Results {
		most = max(most, r.Results[i].Reads)
	}
	return most
}

// lucky reports whether a smaller batch does not fit.
func (r *Result) lucky() bool { return r.TooLarge > 0 && r.TooLarge < r.LargestBatch }

// row writes a line of the table; plain is the batch to compare with.
func (r *Result) row(w *tabwriter.Writer, plain int) {
	if r.none() {
		fmt.Fprintf(w, "%s\t%s\t%s\tnone\t\t-\t-\t-\t\n", r.Precision, yes(r.Checkpoint), yes(r.Expandable))
		return
	}
	batch, ratio := fmt.Sprint(r.LargestBatch), ""
	if r.AtMax {
		batch = "≥ " + batch
	}
	if r.lucky() {
		batch += fmt.Sprintf(", not %d", r.TooLarge)
	}
	if r.open() && r.Steps > 0 {
		batch += ", " + plural.Of(r.Steps, "step")
	}
	if plain > 0 {
		ratio = fmt.Sprintf("x %.2f", float64(r.LargestBatch)/float64(plain))
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Precision, yes(r.Checkpoint), yes(r.Expandable), batch, ratio,
		device.FormatBytes(uint64(max(r.PerSample, 0))), device.FormatBytes(uint64(r.PeakAllocated)), device.FormatBytes(uint64(r.PeakReserved)), shares(r.AtPeak))
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "-"
}
