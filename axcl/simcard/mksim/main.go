// Command mksim builds the simulated card's libraries: mksim -o build/sim [-- compiler flags].
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/axle-llm/axle/axcl/simcard"
)

func main() {
	out := flag.String("o", "build/sim", "folder for the libraries")
	flag.Parse()
	libs, err := simcard.Build(*out, flag.Args()...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(libs.AXCL)
	fmt.Println(libs.Sys)
	fmt.Println(libs.Engine)
}
