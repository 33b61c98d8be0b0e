package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"

	"github.com/anishathalye/porcupine"
)

// The models in Porcupine's terms: a crashed operation returns after everything else, with a result that fits any
// state, as Porcupine's own tests of etcd logs do it.

func register(h *history) porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return first(h.init) },
		Step: func(state, input, _ interface{}) (bool, interface{}) {
			op, now := input.(*operation), state.(int64)
			switch op.function {
			case write:
				return true, op.arguments[0]
			case cas:
				if op.arguments[0] == now {
					return true, op.arguments[1]
				}
				return op.ret < 0, now
			case casFailed:
				return op.ret < 0 || op.arguments[0] != now, now
			default:
				return op.ret < 0 || op.arguments[0] == unknown || op.arguments[0] == now, now
			}
		},
	}
}

func mutex(h *history) porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return len(h.init) > 0 && h.init[0] != 0 },
		Step: func(state, input, _ interface{}) (bool, interface{}) {
			op, held := input.(*operation), state.(bool)
			if held == (op.function == release) {
				return true, !held
			}
			return op.ret < 0, held
		},
	}
}

// The state of a queue is the string of its elements, eight bytes each: strings compare fast.
func queue(h *history) porcupine.Model {
	return porcupine.Model{
		Hash: hashOfText,
		Init: func() interface{} {
			state := ""
			for _, value := range h.init {
				state += element(value)
			}
			return state
		},
		Step: func(state, input, _ interface{}) (bool, interface{}) {
			op, now := input.(*operation), state.(string)
			switch {
			case op.function == enqueue:
				return true, now + element(op.arguments[0])
			case op.arguments[0] == 0:
				return now == "", now
			case now == "":
				return op.ret < 0, now
			case op.ret < 0 || now[:8] == element(op.arguments[0]):
				return true, now[8:]
			default:
				return false, now
			}
		},
	}
}

func element(value int64) string {
	var bytes [8]byte
	binary.LittleEndian.PutUint64(bytes[:], uint64(value))
	return string(bytes[:])
}

// The state of one key; nil is the empty string, which is what such stores answer for an absent key.
func keyValue(h *history) porcupine.Model {
	texts := make([]string, len(h.values))
	for i, value := range h.values {
		if json.Unmarshal([]byte(value), &texts[i]) != nil {
			texts[i] = value
		}
	}
	initial := ""
	if len(h.init) > 0 {
		initial = texts[h.init[0]]
	}
	return porcupine.Model{
		PartitionEvent: byKey,
		Hash:           hashOfText,
		Init:           func() interface{} { return initial },
		Step: func(state, input, _ interface{}) (bool, interface{}) {
			op, now := input.(*operation), state.(string)
			switch op.function {
			case write:
				return true, texts[op.arguments[0]]
			case appendTo:
				return true, now + texts[op.arguments[0]]
			case remove:
				return true, ""
			default:
				return op.ret < 0 || op.arguments[0] == unknown || texts[op.arguments[0]] == now, now
			}
		},
	}
}

// Porcupine looks for an equal state among all that share a hash; for long texts this is what makes it fast.
func hashOfText(state interface{}) uint64 {
	hash := fnv.New64a()
	hash.Write([]byte(state.(string)))
	return hash.Sum64()
}

func byKey(events []porcupine.Event) [][]porcupine.Event {
	place, all := map[int32]int{}, [][]porcupine.Event{}
	keyOf := map[int]int32{}
	for _, event := range events {
		if event.Kind == porcupine.CallEvent {
			keyOf[event.Id] = event.Value.(*operation).key
		}
		key := keyOf[event.Id]
		if _, known := place[key]; !known {
			place[key] = len(all)
			all = append(all, nil)
		}
		all[place[key]] = append(all[place[key]], event)
	}
	return all
}

func first(init []int64) int64 {
	if len(init) > 0 {
		return init[0]
	}
	return 0
}

func modelOf(h *history) (porcupine.Model, error) {
	var model porcupine.Model
	switch h.model {
	case "register", "cas-register":
		model = register(h)
	case "mutex":
		model = mutex(h)
	case "fifo-queue":
		model = queue(h)
	case "kv":
		return keyValue(h), nil
	default:
		return model, fmt.Errorf("no model %q", h.model)
	}
	model.PartitionEvent = byKey
	return model, nil
}
