#pragma once
#include "emulated.h"
