// Command lists lists models and makes none.
package main

import (
	"fmt"

	"agentplatform/internal/ai/provider/registry"
	"agentplatform/internal/platform/setting"
)

func main() { fmt.Println(len(registry.Catalogues(setting.Settings{}))) }
