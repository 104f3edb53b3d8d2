// Command llamacpp runs a package on the software card for run.mjs beside it: for each line "PROMPT NEW CLIENTS" on its input it feeds this many
// clients a prompt, lets each say this many tokens, and prints the seconds of both.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/axmodel"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "llamacpp:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 3 {
		return fmt.Errorf("usage: llamacpp PACKAGE THREADS")
	}
	threads, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return err
	}
	d, err := soft.Open(soft.Options{Threads: threads})
	if err != nil {
		return err
	}
	defer d.Close()
	layers, head := axmodel.Files(os.Args[1], "made", 128, 30)
	m, err := axcl.Load(context.Background(), d, axcl.LoadSpec{Layers: layers, Head: head})
	if err != nil {
		return err
	}
	fmt.Println("ready", d.Kernels())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var prompt, tokens, clients int
		if _, err := fmt.Sscan(in.Text(), &prompt, &tokens, &clients); err != nil {
			return err
		}
		if clients*(prompt+tokens) > m.Shape().Cells {
			return fmt.Errorf("%d clients of %d tokens do not fit in %d cells", clients, prompt+tokens, m.Shape().Cells)
		}
		a, err := feed(m, prompt, clients, prompt+tokens)
		if err != nil {
			return err
		}
		b, err := say(m, prompt, tokens, clients)
		if err != nil {
			return err
		}
		fmt.Println(a.Seconds(), b.Seconds())
	}
	return nil
}

// pass makes a pass of n rows. Its embeddings are made up: time does not depend on them.
func pass(s axcl.Shape, n int) *axcl.Pass {
	p := &axcl.Pass{Hidden: make([]uint16, n*s.Hidden), Pos: make([]uint32, n), Cell: make([]uint32, n), SeeCells: make([]uint64, n*axcl.Words(s.Cells)), SeeRows: make([]uint64, n*axcl.Words(n))}
	for i := range p.Hidden {
		p.Hidden[i] = axcl.BFloat16(float32(i*7%31)/31 - 0.5)
	}
	return p
}

// feed gives each client its prompt, in passes of 128 rows; client c has the cells from c·room on.
func feed(m axcl.Model, prompt, clients, room int) (time.Duration, error) {
	s := m.Shape()
	start := time.Now()
	for c := range clients {
		for at := 0; at < prompt; at += 128 {
			n := min(128, prompt-at)
			p := pass(s, n)
			for r := range n {
				p.Pos[r], p.Cell[r] = uint32(at+r), uint32(c*room+at+r)
				see(p.SeeCells[r*axcl.Words(s.Cells):], c*room, at)
				see(p.SeeRows[r*axcl.Words(n):], 0, r)
			}
			if at+n == prompt {
				p.Want, p.Argmax = []int{n - 1}, make([]int32, 1)
			}
			if err := m.Run(p); err != nil {
				return 0, err
			}
		}
	}
	return time.Since(start), nil
}

// say lets each client say this many tokens, all clients in one pass.
func say(m axcl.Model, prompt, tokens, clients int) (time.Duration, error) {
	s := m.Shape()
	start := time.Now()
	for i := range tokens {
		p := pass(s, clients)
		for c := range clients {
			first := c * (prompt + tokens)
			p.Pos[c], p.Cell[c] = uint32(prompt+i), uint32(first+prompt+i)
			see(p.SeeCells[c*axcl.Words(s.Cells):], first, prompt+i)
			p.Want = append(p.Want, c)
		}
		p.Argmax = make([]int32, clients)
		if err := m.Run(p); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

func see(words []uint64, from, n int) {
	for i := from; i < from+n; i++ {
		words[i/64] |= 1 << (i % 64)
	}
}
