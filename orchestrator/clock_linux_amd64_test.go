package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// clockEnv names a file with the seconds that the clock of this process is ahead, as 8 bytes. They may change at any time.
const clockEnv = "LATTICE_TEST_CLOCK"

// shiftClock has the wall clock of this process follow clockEnv. The function of the kernel's vDSO that the runtime asks for the time is replaced;
// no other process sees that, and the monotonic clock goes on as before.
func shiftClock(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	ahead, err := unix.Mmap(int(f.Fd()), 0, 8, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return err
	}
	var start, end uintptr
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			if _, err := fmt.Sscanf(line, "%x-%x", &start, &end); err != nil {
				return err
			}
		}
	}
	memory, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	vdso := make([]byte, end-start)
	if _, err := memory.ReadAt(vdso, int64(start)); err != nil {
		return fmt.Errorf("read the vDSO: %w", err)
	}
	image, err := elf.NewFile(bytes.NewReader(vdso))
	if err != nil {
		return err
	}
	symbols, err := image.DynamicSymbols()
	if err != nil {
		return err
	}
	at := binary.LittleEndian.AppendUint64(nil, addressOf(ahead))
	code := append([]byte{
		0x57, 0x56, // push rdi; push rsi
		0xb8, 0xe4, 0, 0, 0, 0x0f, 0x05, // clock_gettime, as a system call
		0x5e, 0x5f, // pop rsi; pop rdi
		0x85, 0xff, 0x75, 0, // if it is not the wall clock: to the end, see below
		0x48, 0xb8}, at...) // mov rax, at
	code = append(code,
		0x48, 0x8b, 0x00, // mov rax, [rax]
		0x48, 0x01, 0x06, // seconds += rax
	)
	code[14] = byte(len(code) - 15)       // the jump ends here
	code = append(code, 0x31, 0xc0, 0xc3) // return 0
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" {
			_, err := memory.WriteAt(code, int64(start)+int64(s.Value))
			return err
		}
	}
	return errors.New("the vDSO has no clock_gettime")
}

func addressOf(b []byte) uint64 {
	var address uint64
	_, _ = fmt.Sscanf(fmt.Sprintf("%p", &b[0]), "0x%x", &address) // it has this form
	return address
}

// TestClockJumps: the wall clock of the leader jumps by up to a day to and fro while a job works, and between its commands. Each event is there once and
// in order, and the run ends as it would have ended.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	for n := range *soakFaults {
		random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 9))
		j := newJob(t)
		file := j.dir + "/clock"
		jumps := 0
		jump := func(seconds int64) {
			jumps++
			f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o600)
			if err == nil {
				_, err = f.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(seconds)), 0)
			}
			if err = errors.Join(err, f.Close()); err != nil {
				t.Error(err)
			}
		}
		jump(3600)
		j.env = append(j.env, clockEnv+"="+file)
		if d := time.Until(j.readClock(t)); d < 59*time.Minute || d > 61*time.Minute {
			t.Fatalf("the clock of lattice is %v ahead, want an hour", d)
		}
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(20+random.IntN(150)) * time.Millisecond):
					jump(random.Int64N(2*86400) - 86400)
				}
			}
		}()
		if status := j.drive(t); status != "succeeded" {
			t.Errorf("the run is %s", status)
		}
		close(stop)
		<-done
		jump(0)
		t.Logf("round %d: %d jumps", n, jumps)
		j.check(t)
		if t.Failed() {
			return
		}
		j.remove()
	}
}

// readClock returns the time by the clock of lattice.
func (j *job) readClock(t *testing.T) time.Time {
	t.Helper()
	_, out := j.lattice(t, 0, "", "token", "create", "clock", "--ttl", "1h", "--json")
	before, after, ok := strings.Cut(out, `"created_at":"`)
	text, _, _ := strings.Cut(after, `"`)
	at, err := time.Parse(time.RFC3339Nano, text)
	if !ok || err != nil {
		t.Fatalf("a token was made, but when? %s%v: %s", before, err, out)
	}
	return at
}
