//go:build !scripted

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/cmd/internal/singlenet"
)

func init() { register(newRunNetCmd) }

func newRunNetCmd() *cobra.Command {
	var inputs []string
	var device, out string
	var group int
	var zeros bool
	c := &cobra.Command{
		Use:   "run-net FILE.axmodel",
		Short: "Call a single network with arrays from .npy files",
		Long: `Run-net calls a single network once and prints what it gives. Each input is a
.npy file of the tensor's type and size. NumPy has no bf16: its bits go as
uint16.

'axle inspect FILE' lists the tensors, and 'axle bench FILE' times calls. The
card must be free: stop a server that holds it.`,
		Example: `  axle run-net encoder.axmodel --input input_ids=ids.npy --out results
  axle run-net yolo.axmodel --zeros`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if err := free(c.Context(), device, "running a net"); err != nil {
				return err
			}
			n, err := singlenet.Open(c.Context(), device, args[0])
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, n.Close()) }()
			in, err := singlenet.Inputs(n, group, inputs, zeros)
			if err != nil {
				return usageError("%w", err)
			}
			got, took, err := n.Run(c.Context(), group, in)
			if err != nil {
				return err
			}
			if err := singlenet.Print(c.OutOrStdout(), n, group, got, took); err != nil || out == "" {
				return err
			}
			saved, err := singlenet.Save(out, n, group, got)
			for _, file := range saved {
				fmt.Fprintln(c.OutOrStdout(), "wrote", file)
			}
			return err
		},
	}
	fl := c.Flags()
	fl.StringArrayVar(&inputs, "input", nil, "an input's array, `NAME=FILE.npy`; once for each")
	fl.BoolVar(&zeros, "zeros", false, "inputs that are not given are zeros")
	fl.IntVar(&group, "group", 0, "the shape group to call, a `number` from 0")
	fl.StringVar(&out, "out", "", "write each output to this `folder`, as NAME.npy")
	fl.StringVar(&device, "device", "auto", "the `card`: auto, axcl, axcl:N, axengine or soft")
	return c
}

// isNet says whether what is to be measured is a compiled network's file.
func isNet(name string) bool {
	st, err := os.Stat(name)
	return strings.HasSuffix(name, ".axmodel") && err == nil && st.Mode().IsRegular()
}

// benchNet times calls of a single network.
func benchNet(c *cobra.Command, file, device string, calls int, asJSON bool) (err error) {
	const most = 100_000
	if calls < 1 || calls > most {
		return usageError("-r: calls of a net must be between 1 and %d, got %d", most, calls)
	}
	if err := free(c.Context(), device, "measuring"); err != nil {
		return err
	}
	n, err := singlenet.Open(c.Context(), device, file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	r, err := n.Measure(c.Context(), calls)
	if err != nil {
		return err
	}
	if !asJSON {
		return r.Text(c.OutOrStdout(), n)
	}
	return printJSON(c.OutOrStdout(), r)
}
