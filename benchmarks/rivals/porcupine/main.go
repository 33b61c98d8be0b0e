// Checks packed histories with Porcupine, the rival of the linearizability benchmark.
//
//	porcupine [-time-limit 10s] [-memory MIB] [-every-key] [-from N] FILE
//
// One JSON object a history: id, valid (true, false or "unknown"), ms in the checker. Past the limit of memory, which
// Porcupine itself does not know, the program says so for the history at hand and ends with code 9.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

const outOfMemory = 9

type answer struct {
	ID      string      `json:"id"`
	Valid   interface{} `json:"valid"`
	Ms      float64     `json:"ms"`
	PeakMiB float64     `json:"peak_mib"`
	Reason  string      `json:"reason,omitempty"`
}

func main() {
	limit := flag.Duration("time-limit", time.Minute, "for each history")
	memory := flag.Uint64("memory", 8192, "MiB of heap")
	everyKey := flag.Bool("every-key", false, "a verdict for every key, as Porcupine's verbose mode gives it")
	from := flag.Int("from", 0, "begin with this history")
	flag.Parse()
	bytes, err := os.ReadFile(flag.Arg(0))
	var all []history
	if err == nil {
		all, err = decode(bytes)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "porcupine:", err)
		os.Exit(3)
	}
	out := json.NewEncoder(os.Stdout)
	for i := *from; i < len(all); i++ {
		out.Encode(check(&all[i], *limit, *memory, *everyKey))
	}
}

func check(h *history, limit time.Duration, memory uint64, everyKey bool) answer {
	model, err := modelOf(h)
	if err != nil {
		return answer{ID: h.id, Valid: "unknown", Reason: err.Error()}
	}
	events := eventsOf(h)
	began := time.Now()
	stop := guard(h.id, began, memory)
	var result porcupine.CheckResult
	if everyKey {
		result, _ = porcupine.CheckEventsVerbose(model, events, limit)
	} else {
		result = porcupine.CheckEventsTimeout(model, events, limit)
	}
	took := time.Since(began)
	close(stop)
	var valid interface{} = "unknown"
	if result != porcupine.Unknown {
		valid = result == porcupine.Ok
	}
	return answer{ID: h.id, Valid: valid, Ms: float64(took.Nanoseconds()) / 1e6, PeakMiB: heapMiB()}
}

// guard ends the program when the heap grows past the limit. It looks rarely, so that it costs nothing that one sees.
func guard(id string, began time.Time, memory uint64) chan struct{} {
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
				if heap := heapMiB(); heap > float64(memory) {
					ms := float64(time.Since(began).Nanoseconds()) / 1e6
					json.NewEncoder(os.Stdout).Encode(answer{id, "unknown", ms, heap, "memory"})
					os.Exit(outOfMemory)
				}
			}
		}
	}()
	return stop
}

func heapMiB() float64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapSys) / (1 << 20)
}

func eventsOf(h *history) []porcupine.Event {
	last := 0
	for _, op := range h.operations {
		last = max(last, int(op.call), int(op.ret))
	}
	type moment struct {
		at    int
		event porcupine.Event
	}
	var moments []moment
	for i := range h.operations {
		op := &h.operations[i]
		client := int(op.process)
		moments = append(moments, moment{int(op.call), porcupine.Event{ClientId: client, Kind: porcupine.CallEvent, Value: op, Id: i}})
		end := int(op.ret)
		if end < 0 {
			end = last + 1 + i
		}
		moments = append(moments, moment{end, porcupine.Event{ClientId: client, Kind: porcupine.ReturnEvent, Value: op, Id: i}})
	}
	sort.Slice(moments, func(a, b int) bool { return moments[a].at < moments[b].at })
	events := make([]porcupine.Event, len(moments))
	for i, moment := range moments {
		events[i] = moment.event
	}
	return events
}
