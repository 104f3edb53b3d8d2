package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ollama/ollama/api"
	"github.com/ollama/ollama/parser"
	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/internal/regular"
	"github.com/axle-llm/axle/server/ollama"
)

func init() { register(newCreateCmd) }

func newCreateCmd() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "create MODEL",
		Short: "Make a model from a Modelfile",
		Long: `Create makes a model from a Modelfile. FROM names a model here, or a folder
that holds a package. PARAMETER, TEMPLATE, SYSTEM, MESSAGE and LICENSE are
known too. A model that is made from another shares its files.`,
		Example: `  axle create brief -f Modelfile
  printf 'FROM qwen3:0.6b\nSYSTEM Be brief.' | axle create brief -f -`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			f, dir := c.InOrStdin(), "."
			if file != "-" {
				path := cmp.Or(file, "Modelfile")
				opened, err := os.Open(path)
				if err != nil {
					return fmt.Errorf("create: %w (-f names the Modelfile)", err)
				}
				defer opened.Close()
				f, dir = opened, filepath.Dir(path)
			}
			mf, err := parser.ParseFile(f)
			if err != nil {
				return fmt.Errorf("create: the Modelfile: %w", err)
			}
			return with(c.Context(), false, func(conn *connection) error {
				req, err := createBody(c.Context(), conn, mf, dir)
				if err != nil {
					return err
				}
				req.Model = args[0]
				last := ""
				return conn.Create(c.Context(), req, func(status string) {
					if status != last {
						fmt.Fprintln(c.ErrOrStderr(), status)
						last = status
					}
				})
			})
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "the `Modelfile`, or - for standard input (default: Modelfile)")
	return cmd
}

// createBody turns a Modelfile into a create request. A FROM that names a folder is uploaded first.
func createBody(ctx context.Context, conn *connection, mf *parser.Modelfile, dir string) (*api.CreateRequest, error) {
	req := &api.CreateRequest{}
	params := map[string][]string{}
	var licenses []string
	for _, c := range mf.Commands {
		switch c.Name {
		case "model":
			path := c.Args
			if !filepath.IsAbs(path) {
				path = filepath.Join(dir, path)
			}
			st, err := os.Stat(path)
			if err != nil || !st.IsDir() {
				req.From = c.Args
				continue
			}
			if req.Files, err = uploadPackage(ctx, conn, path); err != nil {
				return nil, err
			}
		case "template":
			req.Template = c.Args
		case "system":
			req.System = c.Args
		case "license":
			licenses = append(licenses, c.Args)
		case "message":
			role, text, _ := strings.Cut(c.Args, ": ")
			req.Messages = append(req.Messages, api.Message{Role: role, Content: text})
		case "renderer": // which the server compares with the package's own
			req.Renderer = c.Args
		case "parser":
			req.Parser = c.Args
		case "adapter", "draft", "requires":
			return nil, fmt.Errorf("create: %s means nothing to a compiled model: take it out of the Modelfile", strings.ToUpper(c.Name))
		default:
			params[c.Name] = append(params[c.Name], c.Args)
		}
	}
	if len(licenses) > 0 {
		req.License = licenses
	}
	if len(params) > 0 {
		req.Parameters = map[string]any{}
		for k, vs := range params {
			v, err := ollama.Param(k, vs)
			if err != nil {
				return nil, fmt.Errorf("create: %w", err)
			}
			req.Parameters[k] = v
		}
	}
	return req, nil
}

// uploadPackage sends a folder's files to the server as blobs, those that it has not.
func uploadPackage(ctx context.Context, conn *connection, dir string) (map[string]string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	defer root.Close()
	files := map[string]string{}
	err = fs.WalkDir(regular.FS(root), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if strings.HasPrefix(filepath.Base(p), ".") {
			return nil
		}
		f, err := regular.Open(root, p)
		if err != nil {
			return err
		}
		defer f.Close()
		h := sha256.New()
		if _, err := io.Copy(h, f); err != nil {
			return err
		}
		digest := fmt.Sprintf("sha256:%x", h.Sum(nil))
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		files[p] = digest
		return conn.CreateBlob(ctx, digest, f)
	})
	if err == nil && len(files) == 0 {
		err = errors.New("the folder is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("create: %s: %w", dir, err)
	}
	return files, nil
}
