package checkpoint_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
)

// What tells this program that it is a child process, and what it does, to which file, from which step on.
const childTask, childPath, childStep = "CISTERN_CHECKPOINT_TASK", "CISTERN_CHECKPOINT_PATH", "CISTERN_CHECKPOINT_STEP"

// tasks are what child processes do.
var tasks = map[string]func(path string, step int) error{"save": saveForEver}

func TestMain(m *testing.M) {
	if task := tasks[os.Getenv(childTask)]; task != nil {
		step, err := strconv.Atoi(os.Getenv(childStep))
		if err == nil {
			err = task(os.Getenv(childPath), step)
		}
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// marked is a state whose every number is its step, so that a mixture of two is seen. It takes several writes.
type marked struct {
	model *nn.LinearLayer
	step  int
}

func newMarked() (*marked, error) {
	m := &marked{model: nn.Linear(700, 1000)}
	return m, m.model.To(host.Default(), nn.Seed(1))
}

func (m *marked) checkpoint() *checkpoint.Checkpoint {
	return checkpoint.New().Add("model", checkpoint.Module(m.model)).Add("step", checkpoint.Value(&m.step))
}

func (m *marked) save(path string, step int) error {
	m.step = step
	for _, p := range m.model.Parameters() {
		if err := p.Tensor().FillInPlace(float64(step)); err != nil {
			return err
		}
	}
	return m.checkpoint().WriteFile(context.Background(), path)
}

// load reads the file and returns its step. A file that is not whole is an error.
func (m *marked) load(path string) (int, error) {
	if err := m.checkpoint().ReadFile(context.Background(), path); err != nil {
		return 0, err
	}
	for _, p := range m.model.Parameters() {
		values, err := p.Tensor().Float64s()
		if err != nil {
			return 0, err
		}
		for _, v := range values {
			if v != float64(m.step) {
				return 0, fmt.Errorf("a number of step %v in the file of step %d", v, m.step)
			}
		}
	}
	return m.step, nil
}

func saveForEver(path string, step int) error {
	m, err := newMarked()
	if err != nil {
		return err
	}
	for ; ; step++ {
		if err := m.save(path, step); err != nil {
			return err
		}
		fmt.Println(step)
	}
}

// child is this program, doing a task.
func child(task, path string, step int) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childTask+"="+task, childPath+"="+path, childStep+"="+strconv.Itoa(step))
	return cmd
}

// killed starts a child that saves, and kills it somewhere after its first save. It returns the last step that the child said was saved.
func killed(t *testing.T, path string, step int) int {
	t.Helper()
	cmd := child("save", path, step)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	said := step - 1
	lines := bufio.NewScanner(out)
	for first := true; lines.Scan(); first = false {
		n, err := strconv.Atoi(lines.Text())
		require.NoError(t, err, "the child's error")
		said = n
		if first {
			time.AfterFunc(time.Duration(rand.Int64N(int64(20*time.Millisecond))), func() { cmd.Process.Kill() })
		}
	}
	require.Error(t, cmd.Wait(), "it does not end by itself")
	return said
}

func TestWriteFile_OfAProcessThatIsKilled_LeavesTheOldFileOrTheNewOne(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "run.safetensors")
	m, err := newMarked()
	require.NoError(t, err)
	defer m.model.Release()
	rounds, left, step := 20, 0, 1
	if testing.Short() {
		rounds = 4
	}
	for range rounds {
		said := killed(t, path, step)
		got, err := m.load(path)
		require.NoError(t, err)
		require.Contains(t, []int{said, said + 1}, got, "the last one that was saved, or the one after it")
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.LessOrEqual(t, len(files), 2, "what one killed process left is cleaned by the next: %v", files)
		left += len(files) - 1
		step = got + 1
	}
	t.Logf("%d of %d processes left a temporary file", left, rounds)
	require.NoError(t, m.save(path, step))
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1)
}

func TestWriteFile_ByProcessesAtOnce_IsWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "run.safetensors")
	m, err := newMarked()
	require.NoError(t, err)
	defer m.model.Release()
	require.NoError(t, m.save(path, 1))
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			cmd := child("save", path, 1000*(i+1))
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Error(err)
				return
			}
			lines := bufio.NewScanner(out)
			for n := 0; n < 10 && lines.Scan(); n++ {
				if _, err := strconv.Atoi(lines.Text()); err != nil {
					t.Errorf("a saver failed: %s", lines.Text())
				}
			}
			cmd.Process.Kill()
			cmd.Wait()
		})
	}
	for range 20 {
		_, err := m.load(path)
		require.NoError(t, err)
	}
	wg.Wait()
	require.NoError(t, m.save(path, 2))
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1)
}
