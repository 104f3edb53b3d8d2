package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/cmd/internal/diagnosis"
	"github.com/axle-llm/axle/internal/terminal"
	"github.com/axle-llm/axle/models"
)

func init() { register(newDoctorCmd) }

func newDoctorCmd() *cobra.Command {
	var asJSON, conformance, fix, yes, dry bool
	var device, model, vision, baseline, save string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Look for cards, say what is wrong and what to do about it",
		Long: `Doctor looks for the vendor's libraries, the driver and the cards. It says what
is wrong and what to do about it. It gives up a library that hangs after 15
seconds.

The exit status is 0 only if a card can be used. With --device soft the
software card counts.

With --fix doctor offers to mend what it found: it shows each command and each
line for a file, asks, does it, and looks again. Files are changed with a copy
beside them. It needs root: run it with sudo.`,
		Example: `  axle doctor
  sudo axle doctor --fix
  axle doctor --conformance --model qwen3:0.6b
  axle doctor --vision qwen3-vl:2b`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := fixFlags(fix, yes, dry, asJSON || conformance || model != "" || vision != ""); err != nil {
				return err
			}
			if (baseline != "" || save != "") && !conformance {
				return usageError("--baseline and --save are about what the conformance suite measures: add --conformance")
			}
			if conformance && model != "" {
				p, err := openPackage(model)
				if kind := new(models.KindError); errors.As(err, &kind) {
					return usageError("--conformance takes a language model: %w; without it --model loads and executes a net of any", err)
				} else if err == nil {
					_ = p.Close() // nothing is written
				}
			}
			if conformance || vision != "" {
				if err := free(cmd.Context(), device, "running the suite"); err != nil {
					return err
				}
			}
			var sees *models.Package
			if vision != "" {
				p, err := openPackage(vision)
				if err != nil {
					return err
				}
				sees = p
			}
			d, err := diagnosis.Run(cmd.Context(), diagnosis.Options{Device: device, Conformance: conformance, Model: model,
				OpenPackage: openPackage, Sees: sees, Baseline: baseline, Save: save})
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if !asJSON {
				d.Print(out)
			} else if err := printJSON(out, d); err != nil {
				return err
			}
			if fix {
				return mend(cmd, d, device, yes, dry)
			}
			if !d.OK {
				return &exitError{code: 1}
			}
			return nil
		},
	}
	f := c.Flags()
	f.BoolVar(&fix, "fix", false, "offer to mend what was found, each step with its command and a question; needs root")
	f.BoolVar(&yes, "yes", false, "with --fix: do all of it without a question")
	f.BoolVar(&dry, "dry-run", false, "with --fix: only show what would be done")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.BoolVar(&conformance, "conformance", false, "also run the suite that every card must pass: minutes on a real card")
	f.StringVar(&device, "device", "auto", "the `card` to examine: auto, axcl, axcl:N, axengine or soft")
	f.StringVar(&model, "model", "",
		"load a layer of this `model`, a name or a folder, and execute it once: a card that is wedged fails there. "+
			"With --conformance the suite runs with this model, and says whether this machine's processor can compute its LM head; "+
			"a vendor's card needs a vendor's model")
	f.StringVar(&save, "save", "", "with --conformance: write what was measured to this `file`, if all checks pass")
	f.StringVar(&baseline, "baseline", "",
		"with --conformance: compare with a `file` that --save wrote, and fail if the card has become less precise, "+
			"by a firmware update for example")
	f.StringVar(&vision, "vision", "", "also show pictures to this `model`, a name or a folder, and say what it sees: minutes")
	return c
}

func fixFlags(fix, yes, dry, others bool) error {
	switch {
	case !fix && yes:
		return usageError("--yes is about --fix: add it")
	case !fix && dry:
		return usageError("--dry-run is about --fix: add it")
	case yes && dry:
		return usageError("--yes does it all and --dry-run does nothing: give --fix one of them")
	case fix && others:
		return usageError("--fix mends what a plain doctor finds: leave out --json, --conformance, --model and --vision")
	}
	return nil
}

// mender is who mends, where a test has no other.
var mender = diagnosis.Mender{Superuser: os.Geteuid() == 0}

// examineAnew runs doctor in a process of its own: a vendor's library may not like to be started
// twice in one.
var examineAnew = func(cmd *cobra.Command, device string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	again := exec.CommandContext(cmd.Context(), self, "doctor", "--device", device)
	again.Stdout, again.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
	if err := again.Run(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() > 0 {
			return &exitError{code: exit.ExitCode()}
		}
		return err
	}
	return nil
}

// mend offers what mends the findings, and looks again where something was done.
func mend(cmd *cobra.Command, d *diagnosis.Diagnosis, device string, yes, dry bool) error {
	out := cmd.OutOrStdout()
	m := mender
	m.Yes, m.Dry, m.Again = yes, dry, "axle doctor --fix"
	if device != "auto" {
		m.Again += " --device " + device
	}
	if m.Ask == nil && terminal.Is(out) && terminalIn(cmd.InOrStdin()) {
		in := bufio.NewReader(cmd.InOrStdin())
		m.Ask = func(question string) (bool, error) {
			fmt.Fprint(out, question)
			answer, err := in.ReadString('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				return false, err
			}
			answer = strings.ToLower(strings.TrimSpace(answer))
			return answer == "y" || answer == "yes", nil
		}
	}
	fmt.Fprintln(out)
	res, err := m.Mend(cmd.Context(), out, d.Findings)
	if err != nil {
		return err
	}
	if res.Done > 0 && len(res.After) == 0 {
		fmt.Fprintln(out, "\nLooking again:")
		return examineAnew(cmd, device)
	}
	if res.Done > 0 {
		fmt.Fprintf(out, "\nNow %s; then 'axle doctor' tells whether it is mended.\n", strings.Join(res.After, " and "))
	}
	if !d.OK {
		return &exitError{code: 1}
	}
	return nil
}

func terminalIn(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && terminal.Is(f)
}
