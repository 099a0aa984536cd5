package memory

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/sim"
)

// test_max_split_expandable: a budget of 120 MiB; blocks of 40 MiB of both kinds; the fourth does not fit; when all are freed
// one request of 120 MiB does.
func TestExpandable_MixedWithMaxSplit(t *testing.T) {
	r := newRig(t, 400*mib, "")
	r.a.SetMemoryLimit(120 * mib)
	toggle := func(on bool) {
		if on {
			r.conf(expandable + ",max_split_size_mb:40")
		} else {
			r.conf("max_split_size_mb:40")
		}
	}
	toggle(true)
	a := r.alloc(40*mib, 0)
	toggle(false)
	b := r.alloc(40*mib, 0)
	toggle(true)
	c := r.alloc(40*mib, 0)
	_, err := r.tryAlloc(40*mib, 0)
	requireOOM(t, err, ErrLimit)
	r.free(a, b, c)
	toggle(false)
	_, err = r.tryAlloc(120*mib, 0)
	require.NoError(t, err, "everything was given back for it, pages too")
}

// test_garbage_collect_expandable: the threshold with both kinds of segments; the plain ones are collected.
func TestExpandable_MixedWithGarbageCollection(t *testing.T) {
	r := newRig(t, 400*mib, "")
	r.a.SetMemoryLimit(120 * mib)
	toggle := func(on bool) {
		if on {
			r.conf(expandable + ",garbage_collection_threshold:0.5")
		} else {
			r.conf("garbage_collection_threshold:0.5")
		}
	}
	toggle(true)
	a := r.alloc(40*mib, 0)
	toggle(false)
	b := r.alloc(40*mib, 0)
	r.free(a, b)
	toggle(true)
	r.takeLog()
	c := r.alloc(80*mib, 0)
	require.Equal(t, []string{"F 1", "P 0 41943040 20971520", "P 0 62914560 20971520"}, r.takeLog(),
		"the plain segment goes, the pages stay")
	r.free(c)
}

// Blocks of expandable segments are passed over while the setting is off.
func TestExpandable_SwitchedOffLeavesItsBlocksAside(t *testing.T) {
	r := newRig(t, 400*mib, expandable)
	a := r.alloc(40*mib, 0)
	r.free(a)
	r.conf("")
	b := r.alloc(40*mib, 0)
	require.Equal(t, place{1, 0}, r.place(b))
	r.conf(expandable)
	require.Equal(t, place{0, 0}, r.place(r.alloc(40*mib, 0)))
	r.free(b)
}

// plainDriver hides the virtual memory of a device.
type plainDriver struct{ Driver }

func TestExpandable_WithoutVirtualMemoryOnlyTheSplitRuleChanges(t *testing.T) {
	r := buildRig(t, 400*mib, expandable, func(d *sim.Device) Driver { return plainDriver{d} })
	r.alloc(19*mib, 0)
	r.requirePicture(
		"segment 0  20 MiB  large pool  stream 0",
		"| 19 MiB allocated | 1 MiB cached |")
}

// A page is a large segment: the setting counts when the range is made.
func TestExpandable_PageSizeFollowsLargeSegmentSize(t *testing.T) {
	r := newRig(t, 400*mib, expandable+",large_segment_size_mb:33")
	r.alloc(5*mib, 0)
	require.Equal(t, []string{"R 0 499122176", "P 0 0 35651584"}, r.takeLog(), "33 MiB rounded up to the device's granularity")
	r.conf(expandable)
	r.alloc(40*mib, 0)
	require.Equal(t, []string{"P 0 35651584 35651584"}, r.takeLog(), "a range keeps its pages")
}
