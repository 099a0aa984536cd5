package cuda

import (
	"bufio"
	"cmp"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cistern-ml/cistern/internal/excerpt"
)

// ProfileVariable is the environment variable that profiles every device of the process, from its first use on: FILE is written when
// a device is closed, with all devices so far, as Profile.WriteTrace does, and FILE.txt as WriteTotals. Each Close replaces both. In
// FILE, %p stands for the number of the process, for programs that start others.
const ProfileVariable = "CISTERN_CUDA_PROFILE"

// profileFile is the profile that the environment asks for.
type profileFile struct {
	epoch  time.Time // times of all profiles are since then
	path   string    // empty for none
	limits profileLimits

	mu       sync.Mutex // held while the files are written; devices that are closed at once take turns
	profiles []*Profile // by index of their devices; those of closed devices stay
	written  uint64     // their versions when the file was written
}

// profileLimits are the limits of what profiles take.
type profileLimits struct {
	spans   int           // operations that a profile keeps one by one; what comes after them is only in the totals
	timings int           // operations that can be under way with their events
	base    time.Duration // age of the event that times are measured from
}

// usualLimits: a trace of about 100 MB, which viewers still open; as many operations as the driver's own queues hold, about; and
// times below 4 seconds, of which a float32 in milliseconds tells a quarter of a microsecond, half of what events do.
var usualLimits = profileLimits{spans: 1 << 18, timings: 2048, base: 2 * time.Second}

func (f *profileFile) init() {
	f.limits, f.written = usualLimits, math.MaxUint64 // no sum of versions: the first file is written even if nothing was enqueued
	f.epoch = time.Now()
	f.path = strings.ReplaceAll(os.Getenv(ProfileVariable), "%p", strconv.Itoa(os.Getpid()))
}

// profileFromEnvironment starts the device's profile when its context is made. An error is no reason not to use the device: it is
// told in the totals.
func (d *Device) profileFromEnvironment() {
	f := &d.system.profiles
	if f.path == "" {
		return
	}
	p := f.of(d)
	if err := d.startProfile(p); err != nil {
		p.fail(err)
	}
}

// of is the profile of a device. A device that is used again after its context was given up goes on with the one that it had.
func (f *profileFile) of(d *Device) *Profile {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.IndexFunc(f.profiles, func(p *Profile) bool { return p.device == d }); i >= 0 {
		return f.profiles[i]
	}
	p := newProfile(d)
	f.profiles = append(f.profiles, p)
	slices.SortFunc(f.profiles, func(a, b *Profile) int { return cmp.Compare(a.device.id.Index, b.device.id.Index) })
	return p
}

// finishProfiles ends the device's profiles and writes the file: what must be done before the context is given up. A device that is
// used again after that goes on with the profile of the environment.
func (d *Device) finishProfiles() error {
	d.endProfiles()
	return d.flushProfile()
}

// flushProfile writes the files that the environment asks for, if there is something new. The device's work is done.
func (d *Device) flushProfile() error {
	if p := d.profiler.Load(); p != nil { // a device of Open stays open, and its profile runs on
		p.drain()
	}
	f := &d.system.profiles
	f.mu.Lock()
	defer f.mu.Unlock()
	var version uint64
	for _, p := range f.profiles {
		version += p.version()
	}
	if len(f.profiles) == 0 || version == f.written {
		return nil
	}
	err := replaceFile(f.path, func(w io.Writer) error { return writeTrace(w, f.profiles) })
	err = join(err, replaceFile(f.path+".txt", f.writeTotals))
	if err != nil {
		return d.fail(ProfileVariable, err, "%s", excerpt.Long(f.path))
	}
	f.written = version
	return nil
}

func (f *profileFile) writeTotals(w io.Writer) error {
	for i, p := range f.profiles {
		if i > 0 {
			if _, err := io.WriteString(w, "\n"); err != nil {
				return err
			}
		}
		if err := p.WriteTotals(w); err != nil {
			return err
		}
	}
	return nil
}

// replaceFile writes a file beside the one of that name, and gives it its name when it is complete.
func replaceFile(name string, write func(io.Writer) error) (err error) {
	// In the same folder, or the new name might be on another file system. Who reads the file meanwhile has the old one, whole.
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	out := bufio.NewWriter(file)
	err = join(write(out), out.Flush(), file.Chmod(0o644), file.Close()) // CreateTemp makes files that nobody else may read
	if err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}
