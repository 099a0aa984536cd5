package main

import "github.com/cistern-ml/cistern/autograd/nn"

// newGenerator makes the network that draws images [N, 1, side, side] in -1..1 from codes [N, code].
func newGenerator(code, channels, side int) *nn.SequentialModule {
	quarter := side / 4
	return nn.Sequential(
		nn.Linear(code, 2*channels*quarter*quarter, nn.NoBias()), nn.Unflatten(1, 2*channels, quarter, quarter),
		nn.BatchNorm2d(2*channels), nn.ReLU(),
		nn.ConvTranspose2d(2*channels, channels, 4, nn.Stride(2), nn.Padding(1), nn.NoBias()), nn.BatchNorm2d(channels), nn.ReLU(),
		nn.ConvTranspose2d(channels, 1, 4, nn.Stride(2), nn.Padding(1)), nn.Tanh(),
	)
}

// newDiscriminator makes the network that gives images the logit of being real, [N, 1].
func newDiscriminator(channels, side int) *nn.SequentialModule {
	quarter := side / 4
	return nn.Sequential(
		nn.Conv2d(1, channels, 4, nn.Stride(2), nn.Padding(1)), nn.LeakyReLU(0.2),
		nn.Conv2d(channels, 2*channels, 4, nn.Stride(2), nn.Padding(1)), nn.LeakyReLU(0.2),
		nn.Flatten(), nn.Dropout(0.3), nn.Linear(2*channels*quarter*quarter, 1),
	)
}
