package axcltest

import "github.com/axle-llm/axle/axcl"

// Card is a product: what it says of itself, and the shape of a model that people run on it.
type Card struct {
	Info  axcl.Info
	Shape axcl.Shape
}

// LLM8850 is M5Stack's LLM-8850 with 8 GB, idle on a Raspberry Pi 5, and Qwen3-0.6B as the vendor
// compiles it for a context of 2047.
func LLM8850() Card {
	s := axcl.Shape{Layers: 28, Hidden: 1024, KV: 1024, Cells: 2047, Out: 151936, Pos: 1, Bytes: 1 << 30}
	s.Groups = append(s.Groups, axcl.Group{Rows: 1, Cells: 2047})
	for h := 0; h <= 1024; h += 128 {
		s.Groups = append(s.Groups, axcl.Group{Rows: 128, Cells: h})
	}
	return Card{
		Info: axcl.Info{Kind: "axcl", Name: "AX650N", ID: "axcl:0", Bus: "0001:01:00.0", Library: "/usr/lib/axcl/libaxcl_rt.so",
			Version: "V3.6.5", Temperature: 50,
			TotalCMM: 7040 << 20, FreeCMM: (7040 - 18) << 20, TotalMem: 945 << 20, FreeMem: 700 << 20,
			Missing: []string{"axclrtTransferFile", "axclrtExecWorker", "axclrtWorkerSend", "axclrtWorkerRecv", "axclrtKillWorker"}},
		Shape: s,
	}
}
