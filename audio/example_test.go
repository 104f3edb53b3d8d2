package audio_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"time"

	"github.com/axle-llm/axle/audio"
)

// A file is read block by block, at the rate that a model wants, and written as a wav.
func Example() {
	second := make([]float32, 44100)
	file := audio.AppendPCM(audio.AppendWAVHeader(nil, 44100, len(second)), second)

	r, err := audio.NewReader(bytes.NewReader(file), 16000, audio.Limits{Duration: 2 * time.Hour})
	if err != nil {
		log.Fatal(err) // it says what is wrong, and what to do
	}
	block := make([]float32, 1600)
	samples := 0
	for {
		n, err := r.Read(block)
		samples += n
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(r.Info().Format, r.Info().Rate, samples)
	// Output: wav 44100 16000
}
