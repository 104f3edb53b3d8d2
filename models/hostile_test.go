package models_test

import "github.com/axle-llm/axle/models/modelstest"

func modelsHostile() []string { return modelstest.HostileNames() }
