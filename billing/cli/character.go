package cli

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"farebox/config"
)

func characterCommand() *cobra.Command {
	var f operatorFlags
	var directory string
	cmd := &cobra.Command{Use: "character", Short: "Import, list, remove and review characters; a running server sees changes at once"}
	f.register(cmd)
	cmd.PersistentFlags().StringVar(&directory, "directory", "",
		"folder of the characters; default: from the config")
	folder := func() (*config.Characters, error) { return f.characters(directory) }
	cmd.AddCommand(f.importCharacters(folder), f.listCharacters(folder), f.removeCharacters(folder),
		f.reviewCommand(folder))
	return cmd
}

// characters are those of the config or of a folder that was named.
func (f *operatorFlags) characters(directory string) (*config.Characters, error) {
	cfg, err := f.config()
	if err != nil {
		return nil, err
	}
	if directory != "" {
		c := config.CharactersIn(directory)
		if cfg.Characters != nil {
			c.MaxPrompt, c.MaxPicture, c.Memory = cfg.Characters.MaxPrompt, cfg.Characters.MaxPicture,
				cfg.Characters.Memory
		}
		return c, nil
	}
	if cfg.Characters == nil {
		return nil, errors.New("no folder of characters is known: name a config with characters: by -c FILE, or the folder by " +
			"--directory")
	}
	return cfg.Characters, nil
}

// characterInfo is a character for operators; without its prompt.
type characterInfo struct {
	Slug     string    `json:"slug"`
	Name     string    `json:"name"`
	ModelID  string    `json:"modelId"`
	Adult    bool      `json:"adult"`
	Featured bool      `json:"featured"`
	Picture  bool      `json:"picture"`
	File     string    `json:"file"`
	Created  time.Time `json:"createdAt"`
	Updated  time.Time `json:"updatedAt"`
}

func infoOf(c *config.Character) characterInfo {
	return characterInfo{Slug: c.Slug, Name: c.Name, ModelID: c.ModelID, Adult: c.Adult, Featured: c.Featured,
		Picture: c.Picture != nil, File: c.File, Created: c.CreatedAt, Updated: c.UpdatedAt}
}

func (f *operatorFlags) printCharacters(cmd *cobra.Command, list []characterInfo) error {
	rows := make([][]string, len(list))
	for i, c := range list {
		var marks []string
		for word, is := range map[string]bool{"adult": c.Adult, "featured": c.Featured, "picture": c.Picture} {
			if is {
				marks = append(marks, word)
			}
		}
		slices.Sort(marks)
		rows[i] = []string{c.Slug, c.Name, c.ModelID, strings.Join(marks, ","), c.File}
	}
	return f.print(cmd, list, "SLUG NAME MODEL MARKS FILE", rows)
}

func (f *operatorFlags) importCharacters(folder func() (*config.Characters, error)) *cobra.Command {
	var replace bool
	cmd := &cobra.Command{
		Use: "import PATH...", Short: "Check character files or folders, and copy them into the folder",
		Args: cobra.MinimumNArgs(1),
		Long: `Checks each file (YAML or JSON) and the picture of the same name next to it (PNG, JPEG, WebP), and copies both
atomically into the folder of characters. Files with errors are skipped.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := folder()
			if err != nil {
				return err
			}
			files, err := characterFiles(args)
			if err != nil {
				return err
			}
			var done []characterInfo
			wrong := 0
			for _, file := range files {
				one, err := c.Import(file, replace)
				if err != nil {
					wrong++
					fmt.Fprintf(cmd.ErrOrStderr(), "cannot import %q: %v\n", file, err)
					continue
				}
				done = append(done, infoOf(one))
			}
			if err := f.printCharacters(cmd, done); err != nil {
				return err
			}
			if wrong > 0 {
				return fmt.Errorf("%d of %d files were not imported", wrong, len(files))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "overwrite existing characters")
	return cmd
}

// characterFiles are the files that were named, and those in folders that were.
func characterFiles(paths []string) (files []string, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("cannot import %q: %w", path, err)
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		list, err := os.ReadDir(path)
		if err != nil {
			return nil, fmt.Errorf("cannot import %q: %w", path, err)
		}
		found := len(files)
		for _, e := range list {
			if config.Importable(e.Name()) {
				files = append(files, filepath.Join(path, e.Name()))
			}
		}
		if len(files) == found {
			return nil, fmt.Errorf("cannot import %q: the folder has no .yaml or .json file", path)
		}
	}
	return files, nil
}

func (f *operatorFlags) listCharacters(folder func() (*config.Characters, error)) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the characters of the folder, and the errors in it", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := folder()
			if err != nil {
				return err
			}
			set, err := c.Read()
			if err != nil {
				return err
			}
			list := make([]characterInfo, len(set.List))
			for i, one := range set.List {
				list[i] = infoOf(one)
			}
			for _, name := range slices.Sorted(maps.Keys(set.Wrong)) {
				fmt.Fprintf(cmd.ErrOrStderr(), "the file %q has an error: %v\n", name, set.Wrong[name])
			}
			return f.printCharacters(cmd, list)
		},
	}
}

func (f *operatorFlags) removeCharacters(folder func() (*config.Characters, error)) *cobra.Command {
	return &cobra.Command{
		Use: "remove SLUG...", Short: "Remove characters and their pictures from the folder; their reviews stay",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := folder()
			if err != nil {
				return err
			}
			removed, rows := []string{}, [][]string{}
			for _, slug := range args {
				files, err := c.Remove(slug)
				if errors.Is(err, config.ErrNoCharacter) {
					err = fmt.Errorf("%w; farebox character list shows them", err)
				}
				if err != nil {
					return errors.Join(err, f.print(cmd, map[string]any{"removed": removed}, "", rows))
				}
				for _, name := range files {
					rows = append(rows, []string{"removed", name})
				}
				removed = append(removed, files...)
			}
			return f.print(cmd, map[string]any{"removed": removed}, "", rows)
		},
	}
}
