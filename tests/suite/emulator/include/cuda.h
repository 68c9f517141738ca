// Stands in for the CUDA header of this name.
#pragma once
#include "../emulator.h"
