package prices

import (
	"net/url"
	"strings"
)

// Vendor is a provider of models whose prices the list has, or that farebox knows how to reach.
type Vendor struct {
	Name    string   // as in the list, and before the slash of wildcard models
	Title   string   // for people
	Dialect string   // of farebox
	BaseURL string   // with the version prefix; empty: it depends on the customer
	Keys    []string // environment variables that hold a key, the usual one first
	Bases   []string // environment variables that replace the host of BaseURL
}

// Vendors are in the order in which they are offered.
var Vendors = []Vendor{
	{Name: "openai", Title: "OpenAI", Dialect: "openai", BaseURL: "https://api.openai.com/v1",
		Keys: []string{"OPENAI_API_KEY"}, Bases: []string{"OPENAI_BASE_URL", "OPENAI_API_BASE"}},
	{Name: "anthropic", Title: "Anthropic", Dialect: "anthropic", BaseURL: "https://api.anthropic.com/v1",
		Keys: []string{"ANTHROPIC_API_KEY"}, Bases: []string{"ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"}},
	{Name: "gemini", Title: "Google Gemini", Dialect: "gemini",
		BaseURL: "https://generativelanguage.googleapis.com/v1beta",
		Keys:    []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}, Bases: []string{"GOOGLE_GEMINI_BASE_URL", "GEMINI_API_BASE"}},
	{Name: "mistral", Title: "Mistral", Dialect: "openai", BaseURL: "https://api.mistral.ai/v1",
		Keys: []string{"MISTRAL_API_KEY"}, Bases: []string{"MISTRAL_API_BASE"}},
	{Name: "deepseek", Title: "DeepSeek", Dialect: "openai", BaseURL: "https://api.deepseek.com/v1",
		Keys: []string{"DEEPSEEK_API_KEY"}, Bases: []string{"DEEPSEEK_API_BASE"}},
	{Name: "xai", Title: "xAI", Dialect: "openai", BaseURL: "https://api.x.ai/v1",
		Keys: []string{"XAI_API_KEY"}, Bases: []string{"XAI_API_BASE"}},
	{Name: "groq", Title: "Groq", Dialect: "openai", BaseURL: "https://api.groq.com/openai/v1",
		Keys: []string{"GROQ_API_KEY"}, Bases: []string{"GROQ_API_BASE"}},
	{Name: "cerebras", Title: "Cerebras", Dialect: "openai", BaseURL: "https://api.cerebras.ai/v1",
		Keys: []string{"CEREBRAS_API_KEY"}, Bases: []string{"CEREBRAS_API_BASE"}},
	{Name: "openrouter", Title: "OpenRouter", Dialect: "openai", BaseURL: "https://openrouter.ai/api/v1",
		Keys: []string{"OPENROUTER_API_KEY"}, Bases: []string{"OPENROUTER_API_BASE"}},
	{Name: "together_ai", Title: "Together AI", Dialect: "openai", BaseURL: "https://api.together.xyz/v1",
		Keys: []string{"TOGETHER_API_KEY", "TOGETHERAI_API_KEY"}, Bases: []string{"TOGETHER_AI_API_BASE"}},
	{Name: "fireworks_ai", Title: "Fireworks AI", Dialect: "openai", BaseURL: "https://api.fireworks.ai/inference/v1",
		Keys: []string{"FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY"}, Bases: []string{"FIREWORKS_API_BASE"}},
	{Name: "deepinfra", Title: "DeepInfra", Dialect: "openai", BaseURL: "https://api.deepinfra.com/v1/openai",
		Keys: []string{"DEEPINFRA_API_KEY"}, Bases: []string{"DEEPINFRA_API_BASE"}},
	{Name: "moonshot", Title: "Moonshot AI", Dialect: "openai", BaseURL: "https://api.moonshot.ai/v1",
		Keys: []string{"MOONSHOT_API_KEY"}, Bases: []string{"MOONSHOT_API_BASE"}},
	{Name: "zai", Title: "Z.AI", Dialect: "openai", BaseURL: "https://api.z.ai/api/paas/v4",
		Keys: []string{"ZAI_API_KEY"}, Bases: []string{"ZAI_API_BASE"}},
	{Name: "dashscope", Title: "Alibaba Model Studio", Dialect: "openai",
		BaseURL: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
		Keys:    []string{"DASHSCOPE_API_KEY"}, Bases: []string{"DASHSCOPE_API_BASE"}},
	{Name: "perplexity", Title: "Perplexity", Dialect: "openai", BaseURL: "https://api.perplexity.ai",
		Keys: []string{"PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"}, Bases: []string{"PERPLEXITY_API_BASE"}},
	{Name: "nebius", Title: "Nebius", Dialect: "openai", BaseURL: "https://api.studio.nebius.ai/v1",
		Keys: []string{"NEBIUS_API_KEY"}, Bases: []string{"NEBIUS_API_BASE"}},
	{Name: "sambanova", Title: "SambaNova", Dialect: "openai", BaseURL: "https://api.sambanova.ai/v1",
		Keys: []string{"SAMBANOVA_API_KEY"}, Bases: []string{"SAMBANOVA_API_BASE"}},
	{Name: "hyperbolic", Title: "Hyperbolic", Dialect: "openai", BaseURL: "https://api.hyperbolic.xyz/v1",
		Keys: []string{"HYPERBOLIC_API_KEY"}, Bases: []string{"HYPERBOLIC_API_BASE"}},
	{Name: "novita", Title: "Novita AI", Dialect: "openai", BaseURL: "https://api.novita.ai/v3/openai",
		Keys: []string{"NOVITA_API_KEY"}, Bases: []string{"NOVITA_API_BASE"}},
	{Name: "nvidia_nim", Title: "NVIDIA NIM", Dialect: "openai", BaseURL: "https://integrate.api.nvidia.com/v1",
		Keys: []string{"NVIDIA_NIM_API_KEY", "NVIDIA_API_KEY"}, Bases: []string{"NVIDIA_NIM_API_BASE"}},
	{Name: "lambda_ai", Title: "Lambda", Dialect: "openai", BaseURL: "https://api.lambda.ai/v1",
		Keys: []string{"LAMBDA_API_KEY"}, Bases: []string{"LAMBDA_API_BASE"}},
	{Name: "azure", Title: "Azure OpenAI", Dialect: "azure", Keys: []string{"AZURE_API_KEY", "AZURE_OPENAI_API_KEY"},
		Bases: []string{"AZURE_API_BASE", "AZURE_OPENAI_ENDPOINT"}},
	{Name: "bedrock", Title: "Amazon Bedrock", Dialect: "bedrock", Keys: []string{"AWS_BEARER_TOKEN_BEDROCK"}},
	{Name: "vertex_ai", Title: "Google Vertex AI", Dialect: "vertex"},
}

// VendorNamed finds a vendor by its name in the list; nil if there is no such vendor.
func VendorNamed(name string) *Vendor {
	for i := range Vendors {
		if Vendors[i].Name == name {
			return &Vendors[i]
		}
	}
	return nil
}

// VendorOf finds the vendor of an upstream by its dialect and host; nil if it is another server.
func VendorOf(dialect, baseURL string) *Vendor {
	u, err := url.Parse(baseURL)
	if err != nil {
		return nil
	}
	for i := range Vendors {
		v := &Vendors[i]
		switch at, _ := url.Parse(v.BaseURL); {
		case v.BaseURL == "" && v.Dialect == dialect:
			return v
		case v.BaseURL != "" && strings.EqualFold(at.Hostname(), u.Hostname()):
			return v
		}
	}
	return nil
}

// At is the address of the vendor behind another host: a base URL as its own packages read
// it, which mostly have no version in it.
func (v *Vendor) At(base string) string {
	base = strings.TrimRight(base, "/")
	own, err := url.Parse(v.BaseURL)
	u, err2 := url.Parse(base)
	if err != nil || err2 != nil || u.Path != "" {
		return base
	}
	return base + own.Path
}
