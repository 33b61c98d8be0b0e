package main

import (
	"encoding/binary"
	"errors"
	"math"
)

// The codes of functions and the layout of a batch are those of checkers/_packing.py and of the Java checker's Packed.
const (
	read = iota
	write
	cas
	casFailed
	appendTo
	remove
	acquire
	release
	add
	removeElement
	contains
	enqueue
	dequeue
	txn
)

const (
	format  = 1
	magic   = 0x484c5053
	unknown = math.MinInt64
)

type operation struct {
	process, key int32
	function     uint8
	call, ret    int32 // ret is -1 for a crashed operation
	arguments    []int64
}

type history struct {
	id, model  string
	init       []int64
	values     []string
	operations []operation
}

type reader struct {
	bytes []byte
	at    int
}

func (r *reader) int() int {
	value := int32(binary.LittleEndian.Uint32(r.bytes[r.at:]))
	r.at += 4
	return int(value)
}

func (r *reader) text() string {
	length := r.int()
	r.at += length
	return string(r.bytes[r.at-length : r.at])
}

func (r *reader) texts() []string {
	all := make([]string, r.int())
	for i := range all {
		all[i] = r.text()
	}
	return all
}

func (r *reader) ints(count int) []int32 {
	all := make([]int32, count)
	for i := range all {
		all[i] = int32(r.int())
	}
	return all
}

func (r *reader) longs() []int64 {
	all := make([]int64, r.int())
	for i := range all {
		all[i] = int64(binary.LittleEndian.Uint64(r.bytes[r.at:]))
		r.at += 8
	}
	return all
}

func decode(bytes []byte) ([]history, error) {
	r := &reader{bytes: bytes}
	if len(bytes) < 12 || r.int() != magic || r.int() != format {
		return nil, errors.New("no batch of histories in a format that this program reads")
	}
	all := make([]history, r.int())
	for i := range all {
		all[i] = r.history()
	}
	return all, nil
}

func (r *reader) history() history {
	r.int() // its length
	h := history{id: r.text(), model: r.text(), init: r.longs(), values: r.texts()}
	r.texts() // the keys' names
	n := r.int()
	process, key := r.ints(n), r.ints(n)
	function := r.bytes[r.at : r.at+n]
	r.at += n
	call, ret, start := r.ints(n), r.ints(n), r.ints(n+1)
	arguments := r.longs()
	for i := 0; i < n; i++ {
		h.operations = append(h.operations, operation{
			process[i], key[i], function[i], call[i], ret[i], arguments[start[i]:start[i+1]],
		})
	}
	return h
}
